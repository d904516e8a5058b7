#include "checkpoint/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_set>

#include "checkpoint/safetensors_sax.h"

namespace seekline {
namespace {

// Turns one entry as it stands into a checked one; notes what is wrong with it.
std::optional<HeaderEntry> checked_entry(RawEntry&& raw, const std::string& file, ProblemList& problems) {
  const auto refuse = [&](const std::string& why) {
    problems.add(fmt::format("{}: tensor {}: {}", file, in_quotes(raw.name), why));
    return std::nullopt;
  };
  if (!raw.problem.empty()) return refuse(raw.problem);
  if (!raw.dtype) return refuse("its header entry has no dtype");
  if (!raw.shape) return refuse("its header entry has no shape");
  if (!raw.offsets) return refuse("its header entry has no data_offsets");
  const std::optional<DType> dtype = dtype_from_name(*raw.dtype);
  if (!dtype) return refuse(fmt::format("dtype {} is not one this engine knows", in_quotes(*raw.dtype)));
  if (raw.offsets->size() != 2)
    return refuse(fmt::format("data_offsets holds {} numbers, expected 2", raw.offsets->size()));
  const std::int64_t begin = (*raw.offsets)[0], end = (*raw.offsets)[1];
  if (end < begin) return refuse(fmt::format("data_offsets [{}, {}] run backwards", begin, end));
  const std::int64_t elements = element_count(*raw.shape);
  const auto width = static_cast<std::int64_t>(dtype_bytes(*dtype));
  if (elements < 0 || elements > std::numeric_limits<std::int64_t>::max() / width)
    return refuse(fmt::format("shape {} is larger than any file", shape_text(*raw.shape)));
  if (end - begin != elements * width)
    return refuse(fmt::format("data_offsets [{}, {}] span {} bytes, but {} {} takes {}", begin, end,
                              end - begin, *raw.dtype, shape_text(*raw.shape), elements * width));
  return HeaderEntry{std::move(raw.name), *dtype, std::move(*raw.shape), begin, end};
}

void check_names(const std::vector<HeaderEntry>& entries, const std::string& file, ProblemList& problems) {
  std::unordered_set<std::string_view> seen;
  seen.reserve(entries.size());
  for (const HeaderEntry& e : entries)
    if (!seen.insert(e.name).second)
      problems.add(fmt::format("{}: tensor {}: the header names it twice", file, in_quotes(e.name)));
}

// Tensors must follow each other without overlap or gap and end where the file ends. `complete` is false
// where entries were refused: their bytes are unaccounted for, so gaps mean nothing then.
void check_layout(const std::vector<HeaderEntry>& sorted, std::int64_t data_bytes, bool complete,
                  const std::string& file, ProblemList& problems) {
  const auto beyond = [&](const HeaderEntry& e) { return e.end > data_bytes; };
  if (const auto first = std::find_if(sorted.begin(), sorted.end(), beyond); first != sorted.end()) {
    const auto others = std::count_if(sorted.begin(), sorted.end(), beyond) - 1;
    problems.add(
        fmt::format("{}: tensor {}{}: ends at byte {} of the tensor data, but the file holds only {}: it was "
                    "cut short or its header lies",
                    file, in_quotes(first->name), others == 0 ? "" : fmt::format(" (and {} more)", others),
                    first->end, data_bytes));
  }
  std::int64_t reached = 0;
  const HeaderEntry* last = nullptr;
  for (const HeaderEntry& e : sorted) {
    if (e.begin < reached && e.end > e.begin) {
      problems.add(fmt::format("{}: tensor {}: begins at byte {} and overlaps tensor {}, which ends at {}",
                               file, in_quotes(e.name), e.begin, in_quotes(last->name), reached));
    } else if (e.begin > reached && complete) {
      problems.add(fmt::format("{}: tensor {}: begins at byte {}, but {} bytes before it belong to no tensor",
                               file, in_quotes(e.name), e.begin, e.begin - reached));
    }
    if (e.end > reached || last == nullptr) last = &e;
    reached = std::max(reached, e.end);
  }
  if (complete && reached < data_bytes)
    problems.add(fmt::format("{}: {} trailing bytes belong to no tensor", file, data_bytes - reached));
}

std::optional<std::string_view> header_text(const std::uint8_t* data, std::int64_t file_bytes,
                                            const std::string& file, ProblemList& problems) {
  const auto refuse = [&](const std::string& why) {
    problems.add(fmt::format("{}: {}", file, why));
    return std::nullopt;
  };
  if (file_bytes < 8)
    return refuse(fmt::format("is {} bytes long, too short for a safetensors file", file_bytes));
  std::uint64_t length = 0;
  for (unsigned i = 0; i < 8; ++i) length |= static_cast<std::uint64_t>(data[i]) << (8 * i);
  if (length > static_cast<std::uint64_t>(kMaxHeaderBytes))
    return refuse(
        fmt::format("its header claims {} bytes, more than the limit of {}: not a safetensors file, or "
                    "damaged",
                    length, kMaxHeaderBytes));
  if (static_cast<std::int64_t>(length) > file_bytes - 8)
    return refuse(
        fmt::format("its header claims {} bytes, but the file ends after {}", length, file_bytes - 8));
  if (length == 0 || data[8] != '{') return refuse("its header is not a JSON object");
  return std::string_view(reinterpret_cast<const char*>(data) + 8, length);
}

}  // namespace

SafetensorsHeader read_safetensors_header(const std::uint8_t* data, std::int64_t file_bytes,
                                          const std::string& file, ProblemList& problems) {
  SafetensorsHeader header;
  const auto text = header_text(data, file_bytes, file, problems);
  if (!text) return header;
  header.data_start = 8 + static_cast<std::int64_t>(text->size());

  bool complete = true;
  const std::string failure = parse_header_json(*text, [&](RawEntry&& raw) {
    if (auto entry = checked_entry(std::move(raw), file, problems)) {
      header.entries.push_back(std::move(*entry));
    } else {
      complete = false;
    }
  });
  if (!failure.empty()) {
    problems.add(fmt::format("{}: {}", file, failure));
    return header;
  }
  check_names(header.entries, file, problems);
  std::stable_sort(header.entries.begin(), header.entries.end(),
                   [](const HeaderEntry& a, const HeaderEntry& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
                   });
  check_layout(header.entries, file_bytes - header.data_start, complete, file, problems);
  return header;
}

std::int64_t element_count(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  bool too_many = false;
  for (const std::int64_t extent : shape) {
    if (extent == 0) return 0;
    if (too_many || extent < 0 || count > std::numeric_limits<std::int64_t>::max() / extent) {
      too_many = true;
    } else {
      count *= extent;
    }
  }
  return too_many ? -1 : count;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kShown = 120;
  std::string text = "'";
  for (const char c : name.substr(0, kShown))
    text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  if (name.size() > kShown) text += "...";
  return text + "'";
}

}  // namespace seekline
