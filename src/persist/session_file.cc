#include "seekline/session_file.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/snapshot.h"
#include "engine/timeline.h"
#include "persist/model_identity.h"

namespace seekline {
namespace {

constexpr char kMagic[8] = {'S', 'K', 'S', 'E', 'S', 'S', 'I', 'O'};
constexpr std::uint32_t kSessionVersion = 1;

struct Header {
  char magic[8];
  std::uint32_t version, snapshots;
  std::uint8_t fingerprint[16];
  std::uint64_t tokens, note_bytes, body_bytes;
  std::uint64_t body_sum;    // XXH3-64 of what follows the header
  std::uint64_t header_sum;  // of the header before this field
};
static_assert(sizeof(Header) == 72);

std::uint64_t sum_of(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

// Both planes of a growing store's rows, page by page.
template <typename Plane>
void for_planes(const SequenceCache& cache, const Store& store, Plane&& plane) {
  for (const bool scales : {false, true}) {
    const std::int64_t bytes = scales ? store.row.scale_bytes() : store.row.data_bytes();
    for (std::int64_t row = 0, rows = store.rows_at(cache.length()); bytes > 0 && row < rows;) {
      const PageRows page = cache.page_rows(store.id, row, rows - row);
      plane(scales ? page.scale : page.data, static_cast<std::size_t>(page.rows * bytes));
      row += page.rows;
    }
  }
}

struct SnapshotHeader {
  std::uint32_t part, reserved;
  std::uint64_t position;
};

// Note, tokens, growing stores in order of id, snapshots.
std::vector<std::uint8_t> body_of(const std::string& note, const SequenceCache& cache,
                                  std::span<const std::shared_ptr<const Snapshot>> snapshots) {
  std::vector<std::uint8_t> body;
  const auto add = [&](const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::uint8_t*>(data);
    body.insert(body.end(), from, from + bytes);
  };
  add(note.data(), note.size());
  add(cache.tokens().data(), cache.tokens().size_bytes());
  for (const Store& store : cache.plan().stores)
    if (store.growing()) for_planes(cache, store, add);
  for (const auto& snapshot : snapshots) {
    const SnapshotHeader header{static_cast<std::uint32_t>(snapshot->part), 0,
                                static_cast<std::uint64_t>(snapshot->length)};
    add(&header, sizeof header);
    add(snapshot->bytes.data(), snapshot->bytes.size());
  }
  return body;
}

std::uint64_t bytes_before_snapshots(const CachePlan& plan, std::uint64_t tokens) {
  std::uint64_t bytes = tokens * 4;
  for (const Store& store : plan.stores)
    if (store.growing())
      bytes +=
          static_cast<std::uint64_t>(store.rows_at(static_cast<std::int64_t>(tokens)) * store.row.bytes());
  return bytes;
}

Error io_error(const std::filesystem::path& path, const char* what) {
  return Error(ErrorCode::kIo,
               fmt::format("session file {} {}: {}", path.string(), what, std::strerror(errno)));
}

std::vector<std::uint8_t> read_all(const std::filesystem::path& path) {
  std::error_code missing;
  if (!std::filesystem::exists(path, missing))
    throw Error(ErrorCode::kNotFound, fmt::format("there is no session file {}", path.string()));
  std::ifstream in(path, std::ios::binary);
  std::vector<std::uint8_t> bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in) throw io_error(path, "cannot be read");
  return bytes;
}

Header checked_header(const std::vector<std::uint8_t>& file, const CachePlan& plan,
                      const ModelIdentity& identity, const std::filesystem::path& path) {
  const auto damaged = [&](const char* what) {
    return Error(ErrorCode::kBadFile, fmt::format("session file {} is damaged: {}", path.string(), what));
  };
  Header header;
  if (file.size() < sizeof header || std::memcmp(file.data(), kMagic, sizeof kMagic) != 0)
    throw Error(ErrorCode::kBadFile, fmt::format("{} is not a session file", path.string()));
  std::memcpy(&header, file.data(), sizeof header);
  if (header.version != kSessionVersion)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("session file {} has format version {}, this program writes {}", path.string(),
                            header.version, kSessionVersion));
  if (header.header_sum != sum_of(&header, offsetof(Header, header_sum)))
    throw damaged("its header does not add up");
  if (std::memcmp(header.fingerprint, identity.fingerprint.bytes.data(), 16) != 0)
    throw Error(ErrorCode::kUsage,
                fmt::format("session file {} is of another model, or of other numeric settings "
                            "or CPU features",
                            path.string()));
  if (header.body_bytes != file.size() - sizeof header || header.note_bytes > header.body_bytes ||
      header.tokens > header.body_bytes / 4 ||
      bytes_before_snapshots(plan, header.tokens) > header.body_bytes - header.note_bytes)
    throw damaged("it is not as long as its header says");
  if (header.body_sum != sum_of(file.data() + sizeof header, header.body_bytes))
    throw damaged("its checksum does not agree");
  return header;
}

// The snapshot at `in`; a checksum has been compared, so only another program's mistake can make it wrong.
const std::uint8_t* restore_rings(Timeline& timeline, const std::uint8_t* in,
                                  const std::vector<std::uint8_t>& file) {
  SnapshotHeader header;
  const std::uint8_t* end = file.data() + file.size();
  if (end - in < static_cast<std::ptrdiff_t>(sizeof header))
    throw Error(ErrorCode::kBadFile, "the session file's list of windows ends early");
  std::memcpy(&header, in, sizeof header);
  in += sizeof header;
  Snapshot snapshot{static_cast<SnapshotPart>(header.part), static_cast<std::int64_t>(header.position), {}};
  if (header.part > 1 || snapshot.length < 0 || snapshot.length > timeline.rows() ||
      end - in < snapshot_bytes(timeline.cache().plan(), snapshot.part, snapshot.length))
    throw Error(ErrorCode::kBadFile, "the session file's windows are not at a position of its tokens");
  const std::uint8_t* behind = in + snapshot_bytes(timeline.cache().plan(), snapshot.part, snapshot.length);
  snapshot.bytes.assign(in, behind);
  if (snapshot.length > 0 && timeline.can_use(snapshot.part))
    timeline.add_snapshot(std::make_shared<Snapshot>(std::move(snapshot)));
  return behind;
}

}  // namespace

SessionFiles::SessionFiles(const Model& model)
    : identity_(std::make_unique<const ModelIdentity>(identify_model(model))) {}
SessionFiles::SessionFiles(const ModelIdentity& identity)
    : identity_(std::make_unique<const ModelIdentity>(identity)) {}
SessionFiles::~SessionFiles() = default;

void SessionFiles::save(const Session& session, const std::filesystem::path& path,
                        const std::string& note) const {
  const Timeline& timeline = session.timeline();
  if (timeline.approximate())
    throw Error(ErrorCode::kUsage, "a session behind a bounded replay is approximate and is not saved");
  const SequenceCache& cache = timeline.cache();
  const auto snapshots = timeline.resume_rings();
  const std::vector<std::uint8_t> body = body_of(note, cache, snapshots);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kSessionVersion;
  header.snapshots = static_cast<std::uint32_t>(snapshots.size());
  std::memcpy(header.fingerprint, identity_->fingerprint.bytes.data(), 16);
  header.tokens = cache.tokens().size();
  header.note_bytes = note.size();
  header.body_bytes = body.size();
  header.body_sum = sum_of(body.data(), body.size());
  header.header_sum = sum_of(&header, offsetof(Header, header_sum));

  const std::string partial = path.string() + ".partial";
  std::FILE* out = std::fopen(partial.c_str(), "wb");
  if (!out) throw io_error(partial, "cannot be written");
  const bool written = std::fwrite(&header, sizeof header, 1, out) == 1 &&
                       std::fwrite(body.data(), 1, body.size(), out) == body.size() &&
                       std::fflush(out) == 0 && fsync(fileno(out)) == 0;
  const Error failed = io_error(partial, "cannot be written");
  if (std::fclose(out) != 0 || !written || std::rename(partial.c_str(), path.c_str()) != 0) {
    std::remove(partial.c_str());
    throw failed;
  }
}

std::string SessionFiles::restore(Session& session, const std::filesystem::path& path) const {
  Timeline& timeline = session.timeline();
  SequenceCache& cache = timeline.cache();
  const std::vector<std::uint8_t> file = read_all(path);
  const Header header = checked_header(file, cache.plan(), *identity_, path);
  const std::uint8_t* in = file.data() + sizeof header;
  std::string note(reinterpret_cast<const char*>(in), header.note_bytes);
  in += header.note_bytes;
  std::vector<std::int32_t> tokens(header.tokens);
  std::memcpy(tokens.data(), in, tokens.size() * sizeof tokens[0]);
  in += tokens.size() * sizeof tokens[0];
  cache.reserve(std::ssize(tokens));
  cache.advance(0, tokens);
  for (const Store& store : cache.plan().stores)
    if (store.growing())
      for_planes(cache, store, [&](const std::uint8_t* to, std::size_t bytes) {
        std::memcpy(const_cast<std::uint8_t*>(to), in, bytes);
        in += bytes;
      });
  timeline.rows_restored("file");
  for (std::uint32_t i = 0; i < header.snapshots; ++i) in = restore_rings(timeline, in, file);
  return note;
}

}  // namespace seekline
