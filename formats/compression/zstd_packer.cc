#include "millrace/formats/compression/zstd_packer.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <zstd.h>

#include "millrace/formats/compression/frame_table.h"
#include "millrace/formats/error.h"

namespace millrace {
namespace {

// The seek table has 32 bits for the size of a frame, and zstd's own writer stays below this.
constexpr size_t kMostFrameBytes = size_t{1} << 30;

}  // namespace

struct ZstdPacker::State {
  State(int level, size_t most) : frame_bytes(most) {
    if (level < 1 || level > kMostLevel) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("compression level {}: zstd's are 1 to {} here", level, kMostLevel));
    }
    if (most == 0) throw ErrorException(ErrorCode::kInvalidArgument, "zstd frames need at least 1 byte");
    context = ZSTD_createCCtx();
    if (context == nullptr) throw std::bad_alloc();
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { ZSTD_freeCCtx(context); }

  void begin_file(std::string& out) {
    if (!entries.empty()) return;
    out += frame_table_promise();
    entries.push_back({.packed_bytes = static_cast<uint32_t>(frame_table_promise().size())});
  }

  void end_frame(std::string& out) {
    begin_file(out);
    if (frame.empty()) return;
    const size_t before = out.size();
    out.resize(before + ZSTD_compressBound(frame.size()));
    const size_t size = ZSTD_compress2(context, out.data() + before, out.size() - before, frame.data(), frame.size());
    if (ZSTD_isError(size)) throw std::bad_alloc();  // with room for it nothing else can fail
    out.resize(before + size);
    entries.push_back(
        {static_cast<uint32_t>(size), static_cast<uint32_t>(frame.size()), std::exchange(num_records, 0)});
    frame.clear();
  }

  const size_t frame_bytes;
  ZSTD_CCtx* context = nullptr;
  std::string frame;  // that is not ended yet
  uint32_t num_records = 0;
  std::vector<FrameTable::Entry> entries;
};

ZstdPacker::ZstdPacker(int level, size_t frame_bytes) : state_(std::make_unique<State>(level, frame_bytes)) {}
ZstdPacker::~ZstdPacker() = default;
ZstdPacker::ZstdPacker(ZstdPacker&&) noexcept = default;
ZstdPacker& ZstdPacker::operator=(ZstdPacker&&) noexcept = default;

void ZstdPacker::begin_record(uint64_t bytes, std::string& out) {
  const size_t used = state_->frame.size();
  if (used > 0 && (used >= state_->frame_bytes || bytes > state_->frame_bytes - used)) state_->end_frame(out);
  ++state_->num_records;
}

void ZstdPacker::write(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kMostFrameBytes - state_->frame.size());
    state_->frame.append(bytes.substr(0, count));
    bytes.remove_prefix(count);
    if (state_->frame.size() == kMostFrameBytes) state_->end_frame(out);
  }
}

void ZstdPacker::flush(std::string& out) { state_->end_frame(out); }

void ZstdPacker::finish(std::string& out) {
  state_->end_frame(out);
  out += serialize_frame_table(state_->entries);
}

}  // namespace millrace
