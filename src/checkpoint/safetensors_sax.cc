#include "checkpoint/safetensors_sax.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace seekline {
namespace {

using nlohmann::json;

// What nlohmann's parser reports about broken JSON, without its own prefix.
std::string syntax_problem(std::size_t position, const std::string& what) {
  const std::size_t start = std::min(what.find("syntax error"), what.size());
  return fmt::format("its JSON is damaged at byte {} ({})", position,
                     what.substr(start == what.size() ? 0 : start, 160));
}

// Common part of both readers: depth and the message of a syntax error. Depth counts open objects and arrays.
class SaxBase {
 public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  bool binary(binary_t&) { return true; }
  bool parse_error(std::size_t position, const std::string&, const json::exception& error) {
    failure = syntax_problem(position, error.what());
    return false;
  }

  std::string failure;

 protected:
  int depth_ = 0;
};

// Depth 1: names; depth 2: the keys of an entry; depth 3: the numbers of an array.
class HeaderSax : public SaxBase {
 public:
  explicit HeaderSax(const std::function<void(RawEntry&&)>& on_entry) : on_entry_(on_entry) {}

  bool key(string_t& name) {
    if (depth_ == 1) {
      entry_ = RawEntry{};
      entry_.name = std::move(name);
      metadata_ = entry_.name == "__metadata__";
      if (metadata_ && std::exchange(seen_metadata_, true)) wrong("the header names it twice");
    } else if (depth_ == 2 && !metadata_) {
      open_key(name);
    } else if (depth_ > 2) {
      wrong("holds a nested object");
    }
    return true;
  }

  bool start_object(std::size_t) {
    ++depth_;
    if (depth_ > 2) wrong(metadata_ ? "holds something else than text" : "holds a nested object");
    return true;
  }
  bool end_object() {
    if (--depth_ == 1) finish_entry();
    return true;
  }
  bool start_array(std::size_t) {
    ++depth_;
    if (depth_ == 1) failure = "its header is not a JSON object";
    if (depth_ == 2) wrong("is an array, expected an object");
    if (depth_ >= 3 && (metadata_ || list_ == nullptr || depth_ > 3))
      wrong("holds an array where none belongs");
    return failure.empty();
  }
  bool end_array() {
    if (--depth_ == 2) list_ = nullptr;
    if (depth_ == 1) finish_entry();
    return true;
  }

  bool string(string_t& value) {
    if (depth_ == 2 && metadata_) return true;
    if (depth_ == 2 && text_ != nullptr) {
      *text_ = std::move(value);
      text_ = nullptr;
      return true;
    }
    return scalar();
  }
  bool number_unsigned(number_unsigned_t value) {
    if (depth_ != 3 || list_ == nullptr) return scalar();
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()) ||
        (*list_)->size() >= kMaxRank)
      return wrong("holds a number or a list beyond any sane size");
    (*list_)->push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool number_integer(number_integer_t value) {
    if (depth_ != 3) return scalar();
    return wrong(fmt::format("holds the number {}, expected none below 0", value));
  }
  bool number_float(number_float_t, const string_t& text) {
    if (depth_ != 3) return scalar();
    return wrong(fmt::format("holds the number {}, expected a whole number", text.substr(0, 40)));
  }
  bool boolean(bool) { return scalar(); }
  bool null() { return scalar(); }

 private:
  static constexpr std::size_t kMaxRank = 16;

  void open_key(const std::string& name) {
    text_ = nullptr;
    list_ = nullptr;
    if (name == "dtype") {
      if (entry_.dtype) wrong("its header entry says dtype twice");
      text_ = &entry_.dtype.emplace();
    } else if (name == "shape" || name == "data_offsets") {
      auto& list = name == "shape" ? entry_.shape : entry_.offsets;
      if (list) wrong(fmt::format("its header entry says {} twice", name));
      list.emplace();
      list_ = &list;
    } else {
      wrong(fmt::format("its header entry has the unknown key '{}'", name.substr(0, 40)));
    }
  }

  // A scalar where none belongs.
  bool scalar() {
    if (depth_ == 0) failure = "its header is not a JSON object";
    if (depth_ == 1) {
      wrong("is not an object");
      finish_entry();
    }
    if (depth_ >= 2)
      wrong(metadata_ ? "holds something else than text" : "a value of its header entry has the wrong type");
    return failure.empty();
  }
  bool wrong(const std::string& why) {
    if (entry_.problem.empty()) entry_.problem = why;
    return true;
  }
  void finish_entry() {
    if (!metadata_ || !entry_.problem.empty()) on_entry_(std::move(entry_));
    entry_ = RawEntry{};
    text_ = nullptr;
    list_ = nullptr;
  }

  const std::function<void(RawEntry&&)>& on_entry_;
  RawEntry entry_;
  std::string* text_ = nullptr;
  std::optional<std::vector<std::int64_t>>* list_ = nullptr;
  bool metadata_ = false, seen_metadata_ = false;
};

// Depth 1: "metadata", "weight_map"; depth 2 in weight_map: pairs of names. Everything else is passed over.
class IndexSax : public SaxBase {
 public:
  explicit IndexSax(const std::function<void(std::string&&, std::string&&)>& on_pair) : on_pair_(on_pair) {}

  bool key(string_t& name) {
    if (depth_ == 1) {
      in_map_ = name == "weight_map";
      if (in_map_ && seen_map) return fail("it holds two weight_maps");
      seen_map = seen_map || in_map_;
    } else if (depth_ == 2 && in_map_) {
      tensor_ = std::move(name);
    }
    return true;
  }
  bool string(string_t& value) {
    if (depth_ != 2 || !in_map_) return scalar();
    on_pair_(std::move(tensor_), std::move(value));
    return true;
  }
  bool start_object(std::size_t) {
    if (depth_ >= 2 && in_map_) return fail("its weight_map holds something else than file names");
    ++depth_;
    return true;
  }
  bool end_object() {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) {
    if (depth_ == 0) return fail("it is not a JSON object");
    if (in_map_) return fail("its weight_map holds something else than file names");
    ++depth_;
    return true;
  }
  bool end_array() {
    --depth_;
    return true;
  }
  bool number_unsigned(number_unsigned_t) { return scalar(); }
  bool number_integer(number_integer_t) { return scalar(); }
  bool number_float(number_float_t, const string_t&) { return scalar(); }
  bool boolean(bool) { return scalar(); }
  bool null() { return scalar(); }

  bool seen_map = false;

 private:
  bool fail(const char* why) {
    failure = why;
    return false;
  }
  bool scalar() {
    if (depth_ == 0) return fail("it is not a JSON object");
    if (in_map_ && depth_ <= 2) return fail("its weight_map holds something else than file names");
    return true;
  }

  const std::function<void(std::string&&, std::string&&)>& on_pair_;
  std::string tensor_;
  bool in_map_ = false;
};

}  // namespace

std::string parse_header_json(std::string_view text, const std::function<void(RawEntry&&)>& on_entry) {
  HeaderSax sax(on_entry);
  json::sax_parse(text.begin(), text.end(), &sax);
  return sax.failure;
}

std::string parse_index_json(std::string_view text,
                             const std::function<void(std::string&&, std::string&&)>& on_pair) {
  IndexSax sax(on_pair);
  json::sax_parse(text.begin(), text.end(), &sax);
  if (sax.failure.empty() && !sax.seen_map) return "it has no weight_map";
  return sax.failure;
}

}  // namespace seekline
