#include "millrace/formats/compression/frame_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/compression/zstd_format.h"
#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr uint32_t kSeekableMagic = 0x8f92eab1;
constexpr uint8_t kChecksumFlag = 0x80;
constexpr uint8_t kReservedFlags = 0x7c;
constexpr uint32_t kMostFrames = 0x8000000;  // the format's own limit
constexpr uint64_t kMostTableBytes = 64 << 20;
constexpr size_t kEntryBytes = 8;
constexpr size_t kChecksumBytes = 8;

// The frame in front of the seek table: its magic and size, the mark, a number for each frame, and a checksum over all
// of these and the seek table.
constexpr size_t counts_bytes(uint64_t num_frames) {
  return kSkippableHeaderBytes + kShardMark.size() + num_frames * sizeof(uint32_t) + kChecksumBytes;
}

[[noreturn]] void refuse(std::string message) {
  throw ErrorException(ErrorCode::kIndex, "the seek table is broken: " + std::move(message));
}

template <typename T>
T load(std::string_view bytes, size_t at) {  // little endian, as all machines that this runs on
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

struct Footer {
  uint32_t num_frames;
  size_t entry_bytes;
  size_t table_bytes;
};

// Nothing when these are not the last bytes of a seek table.
std::optional<Footer> read_footer(std::string_view end, uint64_t file_bytes) {
  if (end.size() < FrameTable::kFooterBytes) return std::nullopt;
  const std::string_view footer = end.substr(end.size() - FrameTable::kFooterBytes);
  if (load<uint32_t>(footer, 5) != kSeekableMagic) return std::nullopt;
  const auto num_frames = load<uint32_t>(footer, 0);
  const auto descriptor = static_cast<uint8_t>(footer[4]);
  if ((descriptor & kReservedFlags) != 0) refuse(fmt::format("reserved flags are set in {:02x}", descriptor));
  if (num_frames > kMostFrames) refuse(fmt::format("no file has {} frames", num_frames));
  const size_t entry_bytes = kEntryBytes + ((descriptor & kChecksumFlag) != 0 ? 4 : 0);
  const uint64_t table_bytes = kSkippableHeaderBytes + uint64_t{num_frames} * entry_bytes + FrameTable::kFooterBytes;
  if (table_bytes > std::min(file_bytes, kMostTableBytes)) {
    refuse(fmt::format("{} frames would take {} bytes, the file has {}, and {} are read at most", num_frames,
                       table_bytes, file_bytes, kMostTableBytes));
  }
  return Footer{num_frames, entry_bytes, table_bytes};
}

// The numbers of records in front of a table of ours; empty in front of another's.
std::string_view find_counts(std::string_view end, const Footer& footer) {
  const size_t size = counts_bytes(footer.num_frames);
  if (end.size() < size + footer.table_bytes) return {};
  const std::string_view bytes = end.substr(end.size() - footer.table_bytes - size, size);
  // Either is enough: where one of them is damaged the checksum says so.
  const bool has_magic =
      load<uint32_t>(bytes, 0) == kShardMagic && load<uint32_t>(bytes, 4) == size - kSkippableHeaderBytes;
  const bool has_mark = bytes.substr(kSkippableHeaderBytes, kShardMark.size()) == kShardMark;
  if (!has_magic && !has_mark) return {};
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, bytes.data(), size - kChecksumBytes);
  XXH3_64bits_update(&state, end.data() + end.size() - footer.table_bytes, footer.table_bytes);
  const uint64_t found = XXH3_64bits_digest(&state);
  if (const auto says = load<uint64_t>(bytes, size - kChecksumBytes); says != found) {
    refuse(fmt::format("its bytes have the checksum {:016x}, their field says {:016x}", found, says));
  }
  return bytes.substr(kSkippableHeaderBytes + kShardMark.size(), footer.num_frames * sizeof(uint32_t));
}

}  // namespace

std::optional<size_t> FrameTable::bytes_needed(std::string_view end, uint64_t file_bytes) {
  const std::optional<Footer> footer = read_footer(end, file_bytes);
  if (!footer) return std::nullopt;
  return static_cast<size_t>(std::min<uint64_t>(footer->table_bytes + counts_bytes(footer->num_frames), file_bytes));
}

FrameTable FrameTable::parse(std::string_view end, uint64_t file_bytes) {
  const std::optional<Footer> footer = read_footer(end, file_bytes);
  if (!footer) refuse("the file does not end like one with a seek table");
  if (end.size() < footer->table_bytes) refuse(fmt::format("only {} of its bytes are there", end.size()));
  const std::string_view table = end.substr(end.size() - footer->table_bytes);
  if (load<uint32_t>(table, 0) != kSeekTableMagic || load<uint32_t>(table, 4) != table.size() - kSkippableHeaderBytes) {
    refuse(fmt::format("{} frames do not begin {} bytes before the end", footer->num_frames, table.size()));
  }
  const std::string_view counts = find_counts(end, *footer);
  FrameTable result;
  result.counts_records_ = !counts.empty();
  Frame next;
  Frame after;  // the last one that unpacks to something
  for (size_t i = 0; i < footer->num_frames; ++i) {
    const size_t at = kSkippableHeaderBytes + i * footer->entry_bytes;
    const auto bytes = load<uint32_t>(table, at + 4);
    if (bytes > 0) result.frames_.push_back(next);
    next.begin += load<uint32_t>(table, at);  // below 2^27 times 2^32
    next.offset += bytes;
    if (!counts.empty()) next.record += load<uint32_t>(counts, i * sizeof(uint32_t));
    if (bytes > 0) after = next;
  }
  if (next.begin + table.size() != file_bytes) {
    refuse(fmt::format("its {} frames and itself have {} bytes together, the file {}", footer->num_frames,
                       next.begin + table.size(), file_bytes));
  }
  if (after.record != next.record) refuse("records begin in frames without bytes");
  result.frames_.push_back(after);
  return result;
}

const FrameTable::Frame& FrameTable::frame_with(uint64_t offset) const {
  const auto after = std::upper_bound(frames_.begin(), frames_.end(), offset,
                                      [](uint64_t value, const Frame& frame) { return value < frame.offset; });
  return *(after - 1);
}

std::span<const FrameTable::Frame> FrameTable::frames_from(uint64_t offset) const {
  const std::span<const Frame> all = frames();
  const auto first = std::lower_bound(all.begin(), all.end(), offset,
                                      [](const Frame& frame, uint64_t value) { return frame.offset < value; });
  return all.subspan(static_cast<size_t>(first - all.begin()));
}

const FrameTable::Frame* FrameTable::frame_at(uint64_t begin) const {
  const std::span<const Frame> all = frames();
  const auto found = std::lower_bound(all.begin(), all.end(), begin,
                                      [](const Frame& frame, uint64_t value) { return frame.begin < value; });
  return found != all.end() && found->begin == begin ? &*found : nullptr;
}

SeekPoint FrameTable::point(const Frame& frame) {
  return {.bit = 8 * frame.begin, .offset = frame.offset, .stream_begin = frame.begin};
}

std::string_view frame_table_promise() {
  static const std::string bytes = [] {
    std::string out;
    put(out, kShardMagic);
    put(out, static_cast<uint32_t>(kShardMark.size()));
    out += kShardMark;
    return out;
  }();
  return bytes;
}

std::string serialize_frame_table(std::span<const FrameTable::Entry> entries) {
  const size_t num_frames = entries.size() + 1;  // and the numbers of records
  std::string counts;
  put(counts, kShardMagic);
  put(counts, static_cast<uint32_t>(counts_bytes(num_frames) - kSkippableHeaderBytes));
  counts += kShardMark;
  std::string table;
  put(table, kSeekTableMagic);
  put(table, static_cast<uint32_t>(num_frames * kEntryBytes + FrameTable::kFooterBytes));
  for (const FrameTable::Entry& entry : entries) {
    put(counts, entry.records);
    put(table, entry.packed_bytes);
    put(table, entry.bytes);
  }
  put(counts, uint32_t{0});
  put(table, static_cast<uint32_t>(counts_bytes(num_frames)));
  put(table, uint32_t{0});
  put(table, static_cast<uint32_t>(num_frames));
  put(table, uint8_t{0});
  put(table, kSeekableMagic);
  const std::string both = counts + table;
  put(counts, XXH3_64bits(both.data(), both.size()));
  return counts + table;
}

}  // namespace millrace
