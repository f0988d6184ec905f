#include "millrace/formats/tfrecord/index/index.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/storage/blocking_file.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/tfrecord/frame.h"

namespace millrace {
namespace {

constexpr std::string_view kMagic = "MLRINDEX";
constexpr uint32_t kVersion = 1;
constexpr size_t kFixedBytes = ShardIndex::kBeginningBytes;
constexpr size_t kChecksumBytes = 8;
constexpr uint64_t kMostPackedWindow = kWindowBytes + 64;  // what cannot be packed is stored

enum class PointKind : uint8_t { kBetweenStreams, kBetweenBlocks, kInsideBlock };

uint64_t hash(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

[[noreturn]] void refuse(std::string message) {
  throw ErrorException(ErrorCode::kIndex, "the index is broken: " + std::move(message));
}

template <typename T>
void put(std::string& out, T value) {  // little endian, as all machines that this runs on
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

/// Takes values from bytes, never more than there are.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string_view take_bytes(uint64_t count) {
    if (count > bytes_.size()) refuse(fmt::format("{} end too early", what_));
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  uint64_t take_varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = take<uint8_t>();
      const uint64_t bits = byte & 0x7f;
      if (shift == 63 && bits > 1) break;
      value |= bits << shift;
      if (byte < 0x80) {
        if (byte == 0 && shift > 0) break;  // a number has one form
        return value;
      }
    }
    refuse(fmt::format("{} hold a number that is none", what_));
  }
  // The sum of `base` and a number, below or at `most`.
  uint64_t take_step(uint64_t base, uint64_t most) {
    const uint64_t step = take_varint();
    if (base > most || step > most - base) refuse(fmt::format("{} go beyond {}", what_, most));
    return base + step;
  }
  void expect_end() const {
    if (!bytes_.empty()) refuse(fmt::format("{} have {} bytes too many", what_, bytes_.size()));
  }

 private:
  std::string_view bytes_;
  std::string_view what_;
};

Error with_place(Error error, std::string path) {
  if (error.shard.empty()) error.shard = std::move(path);
  return error;
}

void put_point(std::string& out, const SeekPoint& point, const SeekPoint& before) {
  const PointKind kind = point.between_streams()      ? PointKind::kBetweenStreams
                         : point.num_header_bits == 0 ? PointKind::kBetweenBlocks
                                                      : PointKind::kInsideBlock;
  put(out, kind);
  put_varint(out, point.bit - before.bit);
  put_varint(out, point.offset - before.offset);
  put_varint(out, point.num_streams - before.num_streams);
  if (kind == PointKind::kBetweenStreams) return;
  put_varint(out, point.stream_begin);
  put_varint(out, point.stream_bytes);
  put(out, point.checksum);
  put_varint(out, point.packed_window.size());
  out += point.packed_window;
  if (kind == PointKind::kBetweenBlocks) return;
  put_varint(out, point.num_header_bits);
  out += point.header;
}

SeekPoint take_point(ByteReader& bytes, const SeekPoint& before, uint64_t shard_bytes, uint64_t num_bytes) {
  SeekPoint point;
  const auto kind = bytes.take<uint8_t>();
  if (kind > static_cast<uint8_t>(PointKind::kInsideBlock))
    refuse(fmt::format("there is no seek point of kind {}", kind));
  if (shard_bytes == 0) refuse("an empty shard has seek points");
  point.bit = bytes.take_step(before.bit, 8 * shard_bytes - 1);
  point.offset = bytes.take_step(before.offset, num_bytes);
  point.num_streams = bytes.take_step(before.num_streams, shard_bytes);
  if (point.bit == before.bit || point.offset == before.offset) refuse("a seek point is not after the one before");
  if (kind == static_cast<uint8_t>(PointKind::kBetweenStreams)) {
    if (point.bit % 8 != 0) refuse("a stream begins inside a byte");
    point.stream_begin = point.bit / 8;
    return point;
  }
  if (point.bit < 16) refuse("a seek point lies in the header of a stream");
  point.stream_begin = bytes.take_step(0, point.bit / 8 - 2);
  point.stream_bytes = bytes.take_step(0, point.offset);
  point.checksum = bytes.take<uint32_t>();
  point.window_bytes = static_cast<uint32_t>(std::min<uint64_t>(point.stream_bytes, kWindowBytes));
  const uint64_t packed_bytes = bytes.take_step(0, kMostPackedWindow);
  point.packed_window = bytes.take_bytes(packed_bytes);
  if (kind == static_cast<uint8_t>(PointKind::kInsideBlock)) {
    point.num_header_bits = static_cast<uint32_t>(bytes.take_step(0, kMostHeaderBits));
    if (point.num_header_bits < 3) refuse("a block's header has less than 3 bits");
    point.header = bytes.take_bytes((point.num_header_bits + 7) / 8);
  }
  return point;
}

}  // namespace

RecordPosition ShardIndex::first_from(uint64_t offset) const {
  const auto end = parts_.entries.end() - 1;
  const auto found = std::lower_bound(parts_.entries.begin(), end, offset,
                                      [](uint64_t entry, uint64_t value) { return offset_in(entry) < value; });
  return {.offset = offset_in(*found), .record = static_cast<uint64_t>(found - parts_.entries.begin())};
}

const SeekPoint* ShardIndex::point_after(uint64_t offset) const {
  const auto found = std::upper_bound(parts_.points.begin(), parts_.points.end(), offset,
                                      [](uint64_t value, const SeekPoint& point) { return value < point.offset; });
  return found == parts_.points.end() ? nullptr : &*found;
}

const SeekPoint* ShardIndex::point_before(uint64_t offset) const {
  const SeekPoint* after = point_after(offset);
  const SeekPoint* const end = after != nullptr ? after : parts_.points.data() + parts_.points.size();
  return end == parts_.points.data() ? nullptr : end - 1;
}

bool ShardIndex::has_frames() const {
  return parts_.compression == Compression::kZstd && !parts_.points.empty() &&
         parts_.points.back().offset == num_bytes();
}

ShardIndex::Frame ShardIndex::frame(size_t number) const {
  const SeekPoint& end = parts_.points[number];
  if (number == 0) return {.begin = 0, .end = end.bit / 8, .offset = 0, .end_offset = end.offset};
  const SeekPoint& begin = parts_.points[number - 1];
  return {.begin = begin.bit / 8, .end = end.bit / 8, .offset = begin.offset, .end_offset = end.offset};
}

size_t ShardIndex::frame_with(uint64_t offset) const {
  const SeekPoint* const before = point_before(offset);
  return before == nullptr ? 0 : static_cast<size_t>(before - parts_.points.data()) + 1;
}

bool operator==(const ShardIndex& a, const ShardIndex& b) {
  return a.parts_.fingerprint == b.parts_.fingerprint && a.parts_.compression == b.parts_.compression &&
         a.parts_.entries == b.parts_.entries && a.parts_.points == b.parts_.points;
}

std::string ShardIndex::serialize() const {
  std::string lengths;
  for (size_t i = 0; i < num_records(); ++i) put_varint(lengths, offset(i + 1) - offset(i) - kFrameBytes);
  std::string points;
  SeekPoint before;
  for (const SeekPoint& point : parts_.points) {
    put_point(points, point, before);
    before = {.bit = point.bit, .offset = point.offset, .num_streams = point.num_streams};
  }
  std::string out(kMagic);
  put(out, kVersion);
  put(out, static_cast<uint32_t>(parts_.compression));
  put(out, parts_.fingerprint.bytes);
  put(out, parts_.fingerprint.first);
  put(out, parts_.fingerprint.last);
  put(out, num_records());
  put(out, num_bytes());
  put(out, static_cast<uint64_t>(parts_.points.size()));
  put(out, static_cast<uint64_t>(parts_.fingerprint.name.size()));
  put(out, static_cast<uint64_t>(lengths.size()));
  put(out, static_cast<uint64_t>(points.size()));
  out += parts_.fingerprint.name;
  out += lengths;
  for (size_t i = 0; i < num_records(); ++i) put(out, tag(i));
  out += points;
  put(out, hash(out));
  return out;
}

void ShardIndex::check_beginning(std::string_view bytes, uint64_t size) {
  if (size > kMostBytes) refuse(fmt::format("{} bytes are too many for an index", size));
  if (size < kFixedBytes + kChecksumBytes || !bytes.starts_with(kMagic)) {
    refuse(fmt::format("its {} bytes do not begin like an index", size));
  }
  ByteReader numbers(bytes.substr(kMagic.size()), "its first numbers");
  if (numbers.take<uint32_t>() != kVersion) return;  // `parse` says so
  (void)numbers.take_bytes(sizeof(uint32_t) + 3 * sizeof(uint64_t));
  const auto num_records = numbers.take<uint64_t>();
  (void)numbers.take_bytes(2 * sizeof(uint64_t));
  uint64_t left = size - kFixedBytes - kChecksumBytes;
  for (const uint64_t part : {numbers.take<uint64_t>(), numbers.take<uint64_t>(), numbers.take<uint64_t>(), num_records,
                              num_records}) {  // a tag of a record has two bytes
    if (part > left) refuse(fmt::format("its {} bytes are too few for what it is to hold", size));
    left -= part;
  }
  if (left > 0) refuse(fmt::format("it has {} bytes too many", left));
}

ShardIndex ShardIndex::parse(std::string_view bytes) {
  if (bytes.size() < kFixedBytes + kChecksumBytes || !bytes.starts_with(kMagic)) {
    refuse(fmt::format("its {} bytes do not begin like an index", bytes.size()));
  }
  ByteReader fixed(bytes.substr(kMagic.size(), kFixedBytes - kMagic.size()), "its first numbers");
  if (const auto version = fixed.take<uint32_t>(); version != kVersion) {
    refuse(fmt::format("it has version {}, this program reads {}", version, kVersion));
  }
  const std::string_view content = bytes.substr(0, bytes.size() - kChecksumBytes);
  if (const auto says = ByteReader(bytes.substr(content.size()), "its checksum").take<uint64_t>();
      says != hash(content)) {
    refuse(fmt::format("its {} bytes have the checksum {:016x}, their field says {:016x}", content.size(),
                       hash(content), says));
  }
  // From here on only somebody who forges an index can make it wrong.
  Parts parts;
  const auto compression = fixed.take<uint32_t>();
  if (compression > static_cast<uint32_t>(Compression::kZstd)) {
    refuse(fmt::format("there is no compression {}", compression));
  }
  parts.compression = static_cast<Compression>(compression);
  parts.fingerprint.bytes = fixed.take<uint64_t>();
  parts.fingerprint.first = fixed.take<uint64_t>();
  parts.fingerprint.last = fixed.take<uint64_t>();
  const auto num_records = fixed.take<uint64_t>();
  const auto num_bytes = fixed.take<uint64_t>();
  const auto num_points = fixed.take<uint64_t>();
  const auto name_size = fixed.take<uint64_t>();
  const auto lengths_size = fixed.take<uint64_t>();
  const auto points_size = fixed.take<uint64_t>();
  for (const uint64_t bytes_of_shard : {parts.fingerprint.bytes, num_bytes}) {
    if (bytes_of_shard >> kOffsetBits != 0) refuse(fmt::format("no shard has {} bytes", bytes_of_shard));
  }

  ByteReader rest(content.substr(kFixedBytes), "its parts");
  parts.fingerprint.name = rest.take_bytes(name_size);
  ByteReader lengths(rest.take_bytes(lengths_size), "the lengths of records");
  if (num_records > lengths_size) refuse(fmt::format("{} bytes hold no {} lengths", lengths_size, num_records));
  ByteReader tags(rest.take_bytes(num_records * sizeof(uint16_t)), "the tags of records");
  parts.entries.clear();
  parts.entries.reserve(num_records + 1);
  uint64_t offset = 0;
  for (uint64_t i = 0; i < num_records; ++i) {
    parts.entries.push_back(entry(offset, tags.take<uint16_t>()));
    offset = lengths.take_step(offset + kFrameBytes, num_bytes);
  }
  parts.entries.push_back(entry(offset, 0));
  lengths.expect_end();
  if (offset != num_bytes) {
    refuse(fmt::format("its records have {} bytes together, expected {}", offset, num_bytes));
  }
  const bool plain = parts.compression == Compression::kNone;
  if (plain && num_bytes != parts.fingerprint.bytes) {
    refuse(fmt::format("its records have {} bytes together, the shard {}", num_bytes, parts.fingerprint.bytes));
  }
  if (plain && num_points > 0) refuse("a plain shard has seek points");

  ByteReader points(rest.take_bytes(points_size), "the seek points");
  rest.expect_end();
  SeekPoint before;
  for (uint64_t i = 0; i < num_points; ++i) {  // grows as points are really there
    parts.points.push_back(take_point(points, before, parts.fingerprint.bytes, num_bytes));
    before = {.bit = parts.points.back().bit,
              .offset = parts.points.back().offset,
              .num_streams = parts.points.back().num_streams};
  }
  points.expect_end();
  return ShardIndex(std::move(parts));
}

std::string index_path(std::string_view shard) { return fmt::format("{}.index", shard); }

bool may_have_index(std::string_view shard) {
  const bool is_http = shard.starts_with("http://") || shard.starts_with("https://");
  return !is_http || shard.find('?') == std::string_view::npos;
}

std::shared_ptr<const ShardIndex> read_shard_index(Storage& storage, const std::string& shard) {
  if (!may_have_index(shard)) return nullptr;
  const std::string path = index_path(shard);
  // By a listing only of local files, where a folder in its place is none: HTTP has no listing, and whoever may read
  // objects may not list them.
  if (!RemoteStorage::opens(path)) {
    std::string pattern;
    for (const char c : path) {
      if (c == '*' || c == '?' || c == '[' || c == '\\') pattern += '\\';
      pattern += c;
    }
    const auto is_folder = [](const std::string& match) { return match.ends_with('/'); };
    if (std::ranges::all_of(storage.glob(pattern), is_folder)) return nullptr;
  }
  std::optional<BlockingFile> found = BlockingFile::find(storage, path);
  if (!found) return nullptr;
  BlockingFile& file = *found;
  try {
    std::string bytes(std::min(file.size(), ShardIndex::kBeginningBytes), '\0');
    file.read(0, std::as_writable_bytes(std::span(bytes)));
    ShardIndex::check_beginning(bytes, file.size());
    bytes.resize(file.size());
    file.read(0, std::as_writable_bytes(std::span(bytes)));
    return std::make_shared<const ShardIndex>(ShardIndex::parse(bytes));
  } catch (const ErrorException& exception) {
    throw ErrorException(with_place(exception.error(), path));
  }
}

std::shared_ptr<const ShardIndex> load_shard_index(Storage& storage, const std::string& shard) {
  auto index = read_shard_index(storage, shard);
  if (!index) return nullptr;
  if (auto text = difference(index->fingerprint(), read_shard_fingerprint(storage, shard))) {
    throw ErrorException(with_place({.code = ErrorCode::kIndex, .message = std::move(*text)}, index_path(shard)));
  }
  return index;
}

}  // namespace millrace
