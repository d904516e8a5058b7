"""Words, sentence patterns and relations of the look-up documents."""

NAMES = ('Mira Tom Anna Ben Clara David Ella Frank Grace Henry Iris Jack Kate Leo Maria Nina Oscar Paul '
         'Rosa Sam Tina Victor Wendy Adam Beth Carl Diana Eric Fiona George Hannah Ivan Julia Karl Laura '
         'Martin Nora Oliver Peter Ruth Simon Tara Alice Bruno Cora Daniel Emma Felix Hugo Jane Lucas Mary '
         'Noah Olga Robert Sarah Thomas Vera William Zoe').split()
OBJECTS = ('key lamp book hammer drum map letter coin ring clock rope knife basket candle mirror violin '
           'umbrella bottle pen camera ladder blanket saw flag bell cup chain broom kettle helmet globe doll '
           'needle axe torch whistle compass suitcase trumpet wallet').split()
PLACES = ('barn kitchen attic garden cellar garage library tower office shed hall school church market station '
          'cabin stable bakery museum harbor mill chapel tent forest cave bank hotel theater castle hospital '
          'bridge factory farm park closet drawer cupboard boat wagon well').split()
CITIES = ('Paris London Rome Berlin Madrid Vienna Oslo Lima Cairo Delhi Tokyo Dublin Prague Athens Boston Denver '
          'Geneva Lisbon Milan Moscow Naples Quebec Sydney Toronto Warsaw York Austin Dallas Havana Kyoto').split()
COLOURS = 'red blue green yellow black white brown orange purple pink gray silver golden violet crimson'.split()
FOODS = ('apples bread cheese soup rice honey fish cake pears grapes beans plums nuts pasta salad onions eggs '
         'cherries lemons corn butter mushrooms carrots potatoes').split()
ANIMALS = 'dog cat horse goat parrot rabbit pony duck turtle sheep cow pig hen mouse fox owl donkey goose'.split()
JOBS = ('doctor teacher baker farmer pilot painter nurse lawyer sailor tailor cook judge miner poet singer '
        'dancer barber butcher carpenter gardener plumber writer actor guard').split()
GROUPS = 'choir club council team band class family crew board league'.split()
GOODS = 'hat coat chair table shirt boot scarf vase plate spoon wheel brush pillow carpet box'.split()
THINGS = 'car house door coat bicycle boat hat bag dress tent scarf roof'.split()
DAYS = 'Monday Tuesday Wednesday Thursday Friday Saturday Sunday'.split()
MONTHS = 'January February March April May June July August September October November December'.split()
NUMBERS = [str(n) for n in range(10, 100)]

# relation: (key pools, value pool, statements, questions, corrections); {0} key, {v} value, {n} some name
RELATIONS = {
    'place': ((OBJECTS,), PLACES,
              ['{n} keeps the {0} in the {v}.', 'The {0} is kept in the {v}.', 'You can find the {0} in the {v}.',
               '{n} left the {0} in the {v}.', 'The {0} is in the {v}.', '{n} put the {0} in the {v} last week.',
               'Everyone knows that the {0} is in the {v}.', 'The old {0} lies in the {v}.'],
              ['Where is the {0}?', 'Where can I find the {0}?', 'In which place is the {0}?'],
              ['Later {n} moved the {0} to the {v}.', 'Then {n} carried the {0} to the {v}.', 'Now the {0} is in the {v} instead.']),
    'code': ((CITIES,), NUMBERS,
             ['The code of {0} is {v}.', '{0} has the code {v}.', 'In the list, {0} has code {v}.', 'For {0} the code is {v}.',
              '{n} wrote down that the code of {0} is {v}.'],
             ['What is the code of {0}?', 'Which code does {0} have?'],
             ['The code of {0} was changed to {v}.', 'From now on the code of {0} is {v}.']),
    'price': ((GOODS,), NUMBERS,
              ['A {0} costs {v} coins.', 'The price of a {0} is {v} coins.', '{n} paid {v} coins for a {0}.', 'You pay {v} coins for a {0}.'],
              ['How many coins does a {0} cost?', 'What is the price of a {0}?'],
              ['Now a {0} costs {v} coins.', 'The price of a {0} rose to {v} coins.']),
    'born': ((NAMES,), MONTHS,
             ['{0} was born in {v}.', 'The birthday of {0} is in {v}.', '{0} has a birthday in {v}.'],
             ['In which month was {0} born?', 'When is the birthday of {0}?'], []),
    'colour': ((NAMES, THINGS), COLOURS,
               ['The {1} of {0} is {v}.', '{0} has a {v} {1}.', '{0} bought a {v} {1}.', '{0} owns a {v} {1}.'],
               ['What colour is the {1} of {0}?', 'Which colour has the {1} of {0}?'],
               ['{0} painted the {1} {v}.', 'Now the {1} of {0} is {v}.']),
    'phone': ((NAMES,), None,
              ['The number of {0} is {v}.', 'You can call {0} at {v}.', '{0} has the phone number {v}.'],
              ['What is the number of {0}?', 'How can I call {0}?'], ['The new number of {0} is {v}.']),
    'meets': ((GROUPS,), DAYS,
              ['The {0} meets on {v}.', 'On {v} the {0} meets.', 'The {0} comes together every {v}.'],
              ['When does the {0} meet?', 'On which day does the {0} meet?'],
              ['The meeting of the {0} was moved to {v}.', 'Now the {0} meets on {v}.']),
    'job': ((NAMES,), JOBS,
            ['{0} works as a {v}.', '{0} is a {v}.', '{0} became a {v} years ago.'],
            ['What is the job of {0}?', 'What does {0} work as?'], []),
    'pet': ((NAMES,), ANIMALS,
            ['{0} has a {v}.', 'The pet of {0} is a {v}.', '{0} takes care of a {v}.'],
            ['Which pet does {0} have?', 'What animal does {0} have?'], []),
    'likes': ((NAMES,), FOODS,
              ['{0} likes {v}.', 'The best food for {0} is {v}.', '{0} eats {v} every day.', '{0} loves {v} most of all.'],
              ['What does {0} like?', 'What does {0} like to eat?'], []),
    'lives': ((NAMES,), CITIES,
              ['{0} lives in {v}.', 'The home of {0} is in {v}.', '{0} has a house in {v}.'],
              ['Where does {0} live?', 'In which city does {0} live?'], ['Later {0} moved to {v}.', 'Now {0} lives in {v}.']),
}
REL = list(RELATIONS)
# relation: statements that name the value before (the last of) what it belongs to; those above, and more that only training uses
EARLY = {
    'place': ['In the {v} you can find the {0}.', 'The {v} is where {n} keeps the {0}.'],
    'code': ['{v} is the code of {0}.', 'In the list, {v} stands for {0}.'],
    'price': ['For {v} coins {n} bought a {0}.', '{v} coins is the price of a {0}.'],
    'born': ['{v} is the month of {0}.', '{v} brings the birthday of {0}.'],
    'colour': [],
    'phone': ['{v} is the number of {0}.', 'Under {v} you can call {0}.'],
    'meets': ['{v} is the day of the {0}.'],
    'job': ['The {v} here is {0}.', 'The {v} has the name {0}.'],
    'pet': ['A {v} is the pet of {0}.', 'The {v} belongs to {0}.'],
    'likes': ['Give {v} to {0} every day.', 'In the basket are {v} for {0}.'],
    'lives': ['{v} is the home of {0}.', 'In {v} you can meet {0}.'],
}
for relation, early in EARLY.items():
    early += [p for p in RELATIONS[relation][2] if p.index('{v}') < max(p.find('{0}'), p.find('{1}'))]

FILL_A = ['The {adj} {noun}', 'A {adj} {noun}', 'An old man', 'The children', 'Some people', 'The wind', 'My neighbor', 'The {noun}']
FILL_B = ['walked slowly along the road', 'waited for the rain to stop', 'talked about the weather', 'slept until noon', 'sang a quiet song',
          'looked out of the window', 'went home before dark', 'made a loud noise', 'said nothing at all', 'had a good day', 'stood near the river',
          'could not remember the story', 'read the newspaper', 'was late again', 'laughed for a long time', 'moved through the trees',
          'came back in the evening', 'wanted to leave early', 'played in the snow', 'worked until the night']
FILL_C = ['.', ' and went on.', ' because it was cold.', ' as always.', ', but nobody saw it.', ' after lunch.', ' that morning.', ' in the summer.',
          ' while the sun was shining.', ', which was strange.', ' for no reason.', ' once more.']
FILL_ADJ = 'small tall quiet happy tired young strange kind lazy brave clever gentle proud poor rich'.split()
FILL_NOUN = 'woman boy girl stranger soldier traveler student child uncle aunt cousin visitor king queen giant'.split()
OPEN = ['Read this.', 'Here are some notes.', 'This is a report.', 'Notes of the day.', 'Please read the text.', 'A short record.', '']
