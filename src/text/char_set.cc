#include "text/char_set.h"

#include <algorithm>
#include <map>

namespace seekline {

CharSet::CharSet(std::vector<CharRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const CharRange& a, const CharRange& b) { return a.first < b.first; });
  for (const CharRange& range : ranges) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

bool CharSet::contains(std::uint32_t code_point) const {
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), code_point,
                       [](std::uint32_t value, const CharRange& range) { return value < range.first; });
  return after != ranges_.begin() && code_point <= std::prev(after)->last;
}

CharSet CharSet::complement() const {
  CharSet result;
  std::uint32_t next = 0;
  for (const CharRange& range : ranges_) {
    if (range.first > next) result.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) result.ranges_.push_back({next, kLastCodePoint});
  return result;
}

CharSet CharSet::united(const CharSet& other) const {
  std::vector<CharRange> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CharSet(std::move(both));
}

CharPartition::CharPartition(std::span<const CharSet> sets) : members_(sets.size()) {
  std::vector<std::uint32_t> starts{0};  // where membership may change
  for (const CharSet& set : sets) {
    for (const CharRange& range : set.ranges()) {
      starts.push_back(range.first);
      if (range.last < kLastCodePoint) starts.push_back(range.last + 1);
    }
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());

  for (std::size_t i = 0; i < sets.size(); ++i) members_[i].push_back(sets[i].contains(kLastCodePoint));
  std::map<std::vector<bool>, std::uint8_t> class_with;
  std::vector<std::uint8_t> classes(kLastCodePoint + 1);
  for (std::size_t k = 0; k < starts.size(); ++k) {
    std::vector<bool> membership(sets.size());
    for (std::size_t i = 0; i < sets.size(); ++i) membership[i] = sets[i].contains(starts[k]);
    const auto [found, is_new] = class_with.try_emplace(membership, static_cast<std::uint8_t>(classes_));
    if (is_new) {
      if (++classes_ > kMaxClasses) return;
      for (std::size_t i = 0; i < sets.size(); ++i) members_[i].push_back(membership[i]);
    }
    const std::uint32_t end = k + 1 < starts.size() ? starts[k + 1] : kLastCodePoint + 1;
    std::fill(classes.begin() + starts[k], classes.begin() + end, found->second);
  }

  std::map<std::array<std::uint8_t, 256>, std::uint16_t> page_with;
  for (std::uint32_t first = 0; first <= kLastCodePoint; first += 256) {
    std::array<std::uint8_t, 256> page;
    std::copy_n(classes.begin() + first, 256, page.begin());
    const auto [found, is_new] = page_with.try_emplace(page, static_cast<std::uint16_t>(pages_.size()));
    if (is_new) pages_.push_back(page);
    page_of_.push_back(found->second);
  }
}

std::vector<std::uint8_t> CharPartition::classes_of_set(std::size_t i) const {
  std::vector<std::uint8_t> result;
  for (std::size_t c = 0; c < members_[i].size(); ++c) {
    if (members_[i][c]) result.push_back(static_cast<std::uint8_t>(c));
  }
  return result;
}

}  // namespace seekline
