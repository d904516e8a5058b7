#include "checkpoint/synth.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/config_reader.h"
#include "checkpoint/families.h"
#include "checkpoint/synth_formula.h"
#include "checkpoint/synth_layout.h"
#include "core/mapped_file.h"
#include "core/thread_pool.h"
#include "seekline/error.h"

namespace seekline {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kPieceBytes = 4 << 20;
constexpr std::int64_t kForgottenBytes = 64 << 20;  // files from here on are read from the disk at first use
constexpr const char* kPartial = ".partial";

[[noreturn]] void io_failed(const fs::path& path, const char* what) {
  throw Error(ErrorCode::kIo, fmt::format("{}: {} failed ({})", path.string(), what, std::strerror(errno)));
}

// A file under its partial name; becomes real by `publish`.
class PartialFile {
 public:
  PartialFile(const fs::path& path, const std::string& start, std::int64_t bytes)
      : path_(path), partial_(path), bytes_(bytes) {
    partial_ += kPartial;
    fd_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) io_failed(partial_, "creating it");
    write(0, reinterpret_cast<const std::uint8_t*>(start.data()), start.size());
    if (::ftruncate(fd_, bytes) != 0) io_failed(partial_, "setting its length");
  }
  ~PartialFile() { ::close(fd_); }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void write(std::int64_t offset, const std::uint8_t* data, std::size_t bytes) const {
    while (bytes > 0) {
      const ssize_t written = ::pwrite(fd_, data, bytes, offset);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) io_failed(partial_, "writing");
      data += written;
      offset += written;
      bytes -= static_cast<std::size_t>(written);
    }
  }
  void publish() const {
    if (bytes_ >= kForgottenBytes) forget_written(fd_);
    fs::rename(partial_, path_);
  }

 private:
  fs::path path_, partial_;
  std::int64_t bytes_;
  int fd_ = -1;
};

struct Piece {
  const PartialFile* file;
  const TensorSpec* spec;
  std::int64_t first, count, offset;  // elements; bytes in the file
};

std::vector<Piece> cut_into_pieces(const std::vector<ShardLayout>& shards,
                                   const std::vector<std::unique_ptr<PartialFile>>& files) {
  std::vector<Piece> pieces;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    for (std::size_t t = 0; t < shards[s].tensors.size(); ++t) {
      const TensorSpec& spec = shards[s].tensors[t];
      const auto width = static_cast<std::int64_t>(dtype_bytes(spec.dtype));
      // Expert ids are made by whole rows, everything else by multiples of the grain.
      const std::int64_t grain = spec.dtype == DType::kI64 ? spec.shape[1] : SynthTensor::kGrain;
      const std::int64_t step = std::max<std::int64_t>(1, kPieceBytes / width / grain) * grain;
      const std::int64_t elements = spec.bytes() / width;
      for (std::int64_t first = 0; first < elements; first += step)
        pieces.push_back({files[s].get(), &spec, first, std::min(step, elements - first),
                          shards[s].file_offsets[t] + first * width});
    }
  }
  return pieces;
}

void write_pieces(const std::vector<Piece>& pieces, std::int64_t total, const SynthOptions& options) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::int64_t> done{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&](int worker) {
    std::vector<std::uint8_t> bytes(kPieceBytes);
    for (std::size_t i = next++; i < pieces.size() && !failed; i = next++) {
      const Piece& piece = pieces[i];
      const std::size_t size = static_cast<std::size_t>(piece.count) * dtype_bytes(piece.spec->dtype);
      bytes.resize(std::max(bytes.size(), size));
      SynthTensor(*piece.spec, options.seed, options.power_scales)
          .fill(piece.first, piece.count, bytes.data());
      piece.file->write(piece.offset, bytes.data(), size);
      done += static_cast<std::int64_t>(size);
      if (worker == 0 && options.progress) options.progress(done, total);
    }
  };
  ThreadPool pool(std::max(1, options.threads));
  pool.run([&](int worker) {
    try {
      work(worker);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

void prepare_folder(const fs::path& folder, std::int64_t bytes_needed) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder))
    throw Error(ErrorCode::kIo, fmt::format("{}: cannot be made a folder", folder.string()));
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"})
    if (fs::exists(folder / name))
      throw Error(ErrorCode::kUsage, fmt::format("{}: already holds a checkpoint ({}); give an empty folder",
                                                 folder.string(), name));
  const fs::space_info space = fs::space(folder, error);
  if (!error && static_cast<double>(space.available) < static_cast<double>(bytes_needed))
    throw Error(ErrorCode::kIo,
                fmt::format("{}: the checkpoint takes {} bytes, but its disk has only {} left",
                            folder.string(), bytes_needed, space.available));
}

void write_text(const fs::path& path, const std::string& text) {
  PartialFile file(path, text, static_cast<std::int64_t>(text.size()));
  file.publish();
}

void copy_tokenizer(const fs::path& from, const fs::path& folder) {
  if (from.empty()) return;
  const bool is_folder = fs::is_directory(from);
  const fs::path source = is_folder ? from / "tokenizer.json" : from;
  if (!fs::exists(source))
    throw Error(ErrorCode::kNotFound, fmt::format("{}: there is no such tokenizer", source.string()));
  fs::copy_file(source, folder / "tokenizer.json", fs::copy_options::overwrite_existing);
  const fs::path more = source.parent_path() / "tokenizer_config.json";
  if (fs::exists(more))
    fs::copy_file(more, folder / "tokenizer_config.json", fs::copy_options::overwrite_existing);
}

}  // namespace

SynthResult write_synth(const nlohmann::json& config, const std::string& subject, const fs::path& folder,
                        const SynthOptions& options) {
  std::vector<TensorSpec> specs = tensor_specs_of(config, subject);
  SynthResult result;
  result.tensors = static_cast<std::int64_t>(specs.size());
  for (const TensorSpec& spec : specs) result.tensor_bytes += spec.bytes();
  const std::vector<ShardLayout> shards =
      lay_out_shards(std::move(specs), result.tensor_bytes <= kSingleFileBytes);
  result.files = static_cast<std::int64_t>(shards.size());

  prepare_folder(folder, options.sparse ? 0 : result.tensor_bytes);
  copy_tokenizer(options.tokenizer, folder);
  std::vector<std::unique_ptr<PartialFile>> files;
  for (const ShardLayout& shard : shards)
    files.push_back(std::make_unique<PartialFile>(folder / shard.name, shard.header, shard.file_bytes));
  if (!options.sparse) write_pieces(cut_into_pieces(shards, files), result.tensor_bytes, options);
  for (const auto& file : files) file->publish();
  write_text(folder / "config.json", config_text(config));
  if (shards.size() > 1) write_text(folder / "model.safetensors.index.json", index_text(shards));
  if (options.progress) options.progress(result.tensor_bytes, result.tensor_bytes);
  return result;
}

}  // namespace seekline
