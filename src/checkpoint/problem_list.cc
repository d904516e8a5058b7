#include "checkpoint/problem_list.h"

#include <fmt/format.h>

#include <utility>

namespace seekline {

void ProblemList::add(ErrorCode code, std::string sentence) {
  if (count_ == 0) code_ = code;
  ++count_;
  if (listed_.size() < kListed) listed_.push_back(std::move(sentence));
}

void ProblemList::append(ProblemList other) {
  if (other.empty()) return;
  if (count_ == 0) code_ = other.code_;
  count_ += other.count_;
  for (std::string& sentence : other.listed_)
    if (listed_.size() < kListed) listed_.push_back(std::move(sentence));
}

void ProblemList::throw_if_any(const std::string& subject) const {
  if (empty()) return;
  std::vector<std::string> sentences = listed_;
  if (count_ > sentences.size()) sentences.push_back(fmt::format("and {} more", count_ - sentences.size()));
  throw Error(code_, subject, std::move(sentences));
}

}  // namespace seekline
