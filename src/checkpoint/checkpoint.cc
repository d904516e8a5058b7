#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/problem_list.h"
#include "checkpoint/safetensors_header.h"
#include "checkpoint/safetensors_sax.h"
#include "core/mapped_file.h"
#include "core/memory.h"
#include "seekline/error.h"

namespace seekline {
namespace fs = std::filesystem;
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";
constexpr std::int64_t kMaxIndexBytes = 200'000'000;
// Where nearly every header ends. It is read as one huge page, so that the weights behind it lie on one too.
constexpr std::int64_t kHeaderBlock = std::int64_t{2} << 20;

}  // namespace

std::int64_t Tensor::elements() const { return element_count(shape); }
std::string Tensor::shape_text() const { return seekline::shape_text(shape); }

struct Checkpoint::Impl {
  fs::path folder;
  std::vector<File> files;
  std::vector<MappedFile> mappings;
  std::vector<Tensor> tensors;  // by name
  std::int64_t tensor_bytes = 0;
  ProblemList problems;

  // Tensor name -> file name, as the index says; empty for a single file.
  std::vector<std::pair<std::string, std::string>> read_index();
  void open_file(const std::string& name);
  void sort_and_check_names();
  void check_index(const std::vector<std::pair<std::string, std::string>>& index);
  std::string file_name(const Tensor& tensor) const {
    return files[static_cast<std::size_t>(tensor.file)].path.filename().string();
  }
};

std::vector<std::pair<std::string, std::string>> Checkpoint::Impl::read_index() {
  std::vector<std::pair<std::string, std::string>> index;
  const MappedFile file = MappedFile::open(folder / kIndexName);
  if (file.bytes() > kMaxIndexBytes) {
    problems.add(fmt::format("{}: is {} bytes long, more than the limit of {}", kIndexName, file.bytes(),
                             kMaxIndexBytes));
    return index;
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()),
                              static_cast<std::size_t>(file.bytes()));
  const std::string failure = parse_index_json(text, [&](std::string&& tensor, std::string&& shard) {
    index.emplace_back(std::move(tensor), std::move(shard));
  });
  if (!failure.empty()) {
    problems.add(fmt::format("{}: {}", kIndexName, failure));
    index.clear();
    return index;
  }
  if (index.empty()) problems.add(fmt::format("{}: its weight_map is empty", kIndexName));
  std::sort(index.begin(), index.end());
  for (std::size_t i = 1; i < index.size(); ++i)
    if (index[i].first == index[i - 1].first)
      problems.add(fmt::format("{}: names tensor {} twice", kIndexName, in_quotes(index[i].first)));
  return index;
}

void Checkpoint::Impl::open_file(const std::string& name) {
  MappedFile mapping;
  try {
    mapping = MappedFile::open(folder / name);
  } catch (const Error& error) {
    problems.add(error.code(), error.what());
    return;
  }
  const int file = static_cast<int>(files.size());
  map_huge_pages(mapping.data(), std::min(mapping.bytes(), kHeaderBlock));
  SafetensorsHeader header = read_safetensors_header(mapping.data(), mapping.bytes(), name, problems);
  tensors.reserve(tensors.size() + header.entries.size());
  for (HeaderEntry& e : header.entries) {
    Tensor tensor;
    tensor.name = std::move(e.name);
    tensor.dtype = e.dtype;
    tensor.shape = std::move(e.shape);
    tensor.data = mapping.data() + header.data_start + e.begin;
    tensor.bytes = e.end - e.begin;
    tensor.file = file;
    tensors.push_back(std::move(tensor));
  }
  files.push_back({mapping.path(), mapping.bytes()});
  mappings.push_back(std::move(mapping));
}

void Checkpoint::Impl::sort_and_check_names() {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const Tensor &a = tensors[i - 1], &b = tensors[i];
    if (a.name == b.name && a.file != b.file)
      problems.add(
          fmt::format("tensor {}: stands in {} and in {}", in_quotes(a.name), file_name(a), file_name(b)));
  }
  for (const Tensor& tensor : tensors) tensor_bytes += tensor.bytes;
}

// Both lists are sorted by name; they must agree pair by pair.
void Checkpoint::Impl::check_index(const std::vector<std::pair<std::string, std::string>>& index) {
  std::size_t i = 0, t = 0;
  while (i < index.size() || t < tensors.size()) {
    if (t == tensors.size() || (i < index.size() && index[i].first < tensors[t].name)) {
      problems.add(fmt::format("{}: says that tensor {} stands in {}, which has no such tensor", kIndexName,
                               in_quotes(index[i].first), in_quotes(index[i].second)));
      ++i;
    } else if (i == index.size() || tensors[t].name < index[i].first) {
      problems.add(fmt::format("{}: tensor {} is not in {}", file_name(tensors[t]),
                               in_quotes(tensors[t].name), kIndexName));
      ++t;
    } else {
      if (file_name(tensors[t]) != index[i].second)
        problems.add(fmt::format("{}: says that tensor {} stands in {}, but it stands in {}", kIndexName,
                                 in_quotes(index[i].first), in_quotes(index[i].second),
                                 file_name(tensors[t])));
      ++i;
      ++t;
    }
  }
}

Checkpoint Checkpoint::open(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    throw Error(ErrorCode::kNotFound, fmt::format("{}: is not a folder", folder.string()));
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  const bool single = fs::exists(folder / kSingleName, ignored);
  if (fs::exists(folder / kIndexName, ignored)) {
    const auto index = impl->read_index();
    std::vector<std::string> names;
    for (const auto& pair : index) names.push_back(pair.second);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (const std::string& name : names) {
      if (name.empty() || name.front() == '.' ||
          name.find_first_of(std::string("/\\\0", 3)) != std::string::npos) {
        impl->problems.add(
            fmt::format("{}: {} is not the name of a file in this folder", kIndexName, in_quotes(name)));
      } else {
        impl->open_file(name);
      }
    }
    if (single && !names.empty() && std::find(names.begin(), names.end(), kSingleName) == names.end())
      impl->problems.add(fmt::format("{} and {} stand in one folder and speak of different files; remove one",
                                     kIndexName, kSingleName));
    impl->problems.throw_if_any(folder.string());
    impl->sort_and_check_names();
    impl->check_index(index);
  } else if (single) {
    impl->open_file(kSingleName);
    impl->sort_and_check_names();
  } else {
    throw Error(ErrorCode::kNotFound,
                fmt::format("{}: holds neither {} nor {}", folder.string(), kIndexName, kSingleName));
  }
  impl->problems.throw_if_any(folder.string());
  return Checkpoint(std::move(impl));
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;

const fs::path& Checkpoint::folder() const { return impl_->folder; }
const std::vector<Checkpoint::File>& Checkpoint::files() const { return impl_->files; }
const std::vector<Tensor>& Checkpoint::tensors() const { return impl_->tensors; }
std::int64_t Checkpoint::tensor_bytes() const { return impl_->tensor_bytes; }

const Tensor* Checkpoint::find(std::string_view name) const {
  const auto& tensors = impl_->tensors;
  const auto at =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const Tensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

std::string Checkpoint::file_name(const Tensor& tensor) const { return impl_->file_name(tensor); }

void Checkpoint::forget(const Tensor& tensor, const std::uint8_t* data, std::int64_t bytes) const {
  impl_->mappings[static_cast<std::size_t>(tensor.file)].forget(data, bytes);
}

bool Checkpoint::fits_memory() const { return tensor_bytes() <= memory_bytes() / 10 * 9; }

void Checkpoint::read_once(std::span<const WeightView> but) const {
  constexpr std::int64_t kPage = 4096;
  std::uint8_t sum = 0;
  for (const Tensor& t : tensors()) {
    const bool left_out =
        std::any_of(but.begin(), but.end(), [&](const WeightView& w) { return w.data == t.data; });
    for (std::int64_t at = 0; !left_out && at < t.bytes; at += kPage)
      sum = static_cast<std::uint8_t>(sum + t.data[at]);
  }
  [[maybe_unused]] volatile std::uint8_t read = sum;
}

void Checkpoint::expect_whole() const {
  for (const MappedFile& file : impl_->mappings) map_huge_pages(file.data(), file.bytes());
}

void Checkpoint::expect_use(std::span<const WeightView> by_rows) const {
  expect_whole();
  for (const WeightView& w : by_rows) {
    map_random_access(w.data, w.rows * w.row_bytes());
    map_random_access(w.scales, w.scale_bytes());
  }
}

}  // namespace seekline
