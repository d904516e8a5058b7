// Options that take one of a few words.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace seekline {

/// `name` WORD sets `target` to what the word stands for; the first word is the default. Another word is
/// refused by a sentence that lists those there are.
template <typename Choice>
void add_choice(CLI::App& command, const std::string& name, Choice& target,
                const std::vector<std::pair<std::string, Choice>>& choices, const std::string& what) {
  std::vector<std::string> words;
  for (const auto& [word, choice] : choices) words.push_back(word);
  command
      .add_option_function<std::string>(
          name,
          [&target, choices](const std::string& typed) {
            for (const auto& [word, choice] : choices)
              if (word == typed) target = choice;
          },
          what)
      ->check(CLI::IsMember(words).description(""))
      ->type_name("WORD")
      ->default_str(words.front());
}

}  // namespace seekline
