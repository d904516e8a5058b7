// Any bytes as a safetensors file, and as the index of a sharded checkpoint.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "checkpoint/problem_list.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/safetensors_sax.h"

namespace {

// A header without problems promises that its tensors tile the data from the first byte to the last.
void check_promise(const seekline::SafetensorsHeader& header, std::int64_t file_bytes) {
  std::int64_t reached = 0;
  for (const seekline::HeaderEntry& entry : header.entries) {
    if (entry.begin != reached && entry.begin != entry.end) std::abort();
    const auto width = static_cast<std::int64_t>(seekline::dtype_bytes(entry.dtype));
    if (seekline::element_count(entry.shape) * width != entry.end - entry.begin) std::abort();
    if (entry.end > reached) reached = entry.end;
  }
  if (header.data_start + reached != file_bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  seekline::ProblemList problems;
  const auto bytes = static_cast<std::int64_t>(size);
  const seekline::SafetensorsHeader header =
      seekline::read_safetensors_header(data, bytes, "fuzzed", problems);
  if (problems.empty()) check_promise(header, bytes);

  std::size_t pairs = 0;
  seekline::parse_index_json(std::string_view(reinterpret_cast<const char*>(data), size),
                             [&pairs](std::string&&, std::string&&) { ++pairs; });
  if (pairs > size) std::abort();
  return 0;
}
