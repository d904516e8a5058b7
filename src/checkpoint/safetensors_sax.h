// Reads the JSON of a safetensors header entry by entry, without building a document.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace seekline {

/// One entry as it stands in the header. `problem` is set where its form is wrong (numbers that are not
/// non-negative integers, a key twice, an unknown key).
struct RawEntry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::int64_t>> shape, offsets;
  std::string problem;
};

/// Calls `on_entry` for every entry but "__metadata__", in order, duplicates included. Returns what is wrong
/// with the JSON as a whole, or nothing.
std::string parse_header_json(std::string_view text, const std::function<void(RawEntry&&)>& on_entry);

/// The same for the index of a sharded checkpoint: calls `on_pair(tensor, file)` for every pair of
/// "weight_map".
std::string parse_index_json(std::string_view text,
                             const std::function<void(std::string&& tensor, std::string&& file)>& on_pair);

}  // namespace seekline
