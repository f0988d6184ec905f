#include "millrace/formats/compression/zstd_unpacker.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "millrace/formats/compression/zstd_format.h"
#include "millrace/formats/compression/zstd_frame_header.h"

namespace millrace {
namespace {

// zstd loses what it unpacked in a call that comes to an error.
constexpr size_t kUnheldInput = 16 << 10;

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
using Context = std::unique_ptr<ZSTD_DCtx, FreeContext>;

Context make_context() {
  Context context(ZSTD_createDCtx());
  if (context == nullptr) throw std::bad_alloc();
  return context;
}

std::string describe(uint64_t begin, size_t code) {
  if (ZSTD_getErrorCode(code) == ZSTD_error_checksum_wrong) {
    return fmt::format("the zstd frame at compressed byte {} has another checksum than the one after it", begin);
  }
  return fmt::format("damaged data in the zstd frame at compressed byte {}: {}", begin, ZSTD_getErrorName(code));
}

}  // namespace

struct ZstdUnpacker::State {
  // kBetween: no byte of the next frame was seen yet. kRelease: bytes that were held are given.
  enum class Part { kBetween, kHeader, kSkipping, kFrame, kRelease, kFailed };

  explicit State(std::shared_ptr<const FrameTable> table) : context(make_context()), frames(std::move(table)) {
    ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, std::bit_width(kMostWindow) - 1);
  }

  bool fail(ErrorCode code, std::string message) {
    part = Part::kFailed;
    error = Error{.code = code, .message = std::move(message)};
    return false;
  }
  bool fail(std::string message) { return fail(ErrorCode::kCompression, std::move(message)); }

  // Runs over `input` until something is used up. False after an error.
  bool run(std::span<const std::byte>& input, std::span<std::byte>& output) {
    for (;;) {
      switch (part) {
        case Part::kFailed: return false;
        case Part::kBetween:
          if (input.empty()) return true;
          begin_frame = num_read;
          num_header = 0;
          part = Part::kHeader;
          break;
        case Part::kHeader:
          if (!take_header(input)) return part != Part::kFailed;
          break;
        case Part::kSkipping: {
          if (to_skip > 0 && input.empty()) return true;
          const auto count = static_cast<size_t>(std::min<uint64_t>(to_skip, input.size()));
          advance(input, count);
          to_skip -= count;
          if (to_skip == 0) part = Part::kBetween;
          break;
        }
        case Part::kFrame:
          if (!(holds ? hold(input, output) : give(input, output))) return part != Part::kFailed;
          break;
        case Part::kRelease: {
          const size_t count = std::min(num_held - num_released, output.size());
          if (count > 0) std::memcpy(output.data(), held.data() + num_released, count);
          output = output.subspan(count);
          num_released += count;
          if (num_released < num_held) return true;
          num_held = num_released = 0;
          part = is_whole ? Part::kBetween : Part::kFrame;
          break;
        }
      }
    }
  }

  void advance(std::span<const std::byte>& input, size_t count) {
    input = input.subspan(count);
    num_read += count;
  }

  // False when the input ends first, or after an error.
  bool take_header(std::span<const std::byte>& input) {
    const std::span<const std::byte> all = input;
    const bool is_first = num_header == 0;
    const auto seen = [this] { return std::span<const std::byte>(header.data(), num_header); };
    while (num_header < ZstdFrameHeader::bytes_needed(seen())) {
      if (input.empty()) return false;
      header[num_header++] = input.front();
      advance(input, 1);
    }
    const uint64_t magic = zstd_number(seen().first(sizeof(uint32_t)));
    if (is_skippable(magic)) {
      part = Part::kSkipping;
      to_skip = zstd_number(seen().subspan(4, 4)) + kSkippableHeaderBytes - num_header;
      if (num_header == kShardPromiseBytes && std::memcmp(&header[kSkippableHeaderBytes], kShardMark.data(), 8) == 0) {
        is_promised = true;
      }
      if (magic == kSeekTableMagic) is_promised = false;
      return true;
    }
    if (magic != kZstdMagic) {
      return fail(begin_frame == 0
                      ? fmt::format("not a zstd file: it begins with {:08x}, expected fd2fb528", magic)
                      : fmt::format("what follows at compressed byte {} is no zstd frame: it begins with {:08x}",
                                    begin_frame, magic));
    }
    if (is_first) {  // zstd unpacks a whole frame at once when it sees it in one piece
      num_read -= all.size() - input.size();
      input = all;
      num_fed = num_header;
    } else {
      num_fed = 0;
    }
    return begin_data(ZstdFrameHeader::parse(seen()));
  }

  bool begin_data(const ZstdFrameHeader& frame) {
    if (frame.dictionary != 0) {
      return fail(fmt::format("the zstd frame at compressed byte {} needs the dictionary {}, which nobody has",
                              begin_frame, frame.dictionary));
    }
    if (frame.window > kMostWindow) {
      return fail(
          fmt::format("the zstd frame at compressed byte {} needs a window of {} bytes, {} are read at most: "
                      "compress with a level up to 19, without --long",
                      begin_frame, frame.window, kMostWindow));
    }
    if (frames != nullptr && frame.content != 0 && !is_where_it_should_be()) return false;
    ZSTD_DCtx_reset(context.get(), ZSTD_reset_session_only);
    content = frame.content;
    holds = frame.has_checksum && content.value_or(0) <= kMostHeld;
    is_whole = false;
    num_held = num_released = 0;
    begin_unpacked = num_unpacked;
    part = Part::kFrame;
    return true;
  }

  bool is_where_it_should_be() {
    const FrameTable::Frame* const frame = frames->frame_at(begin_frame);
    if (frame == nullptr) {
      return fail(fmt::format("the seek table knows no frame at compressed byte {}", begin_frame));
    }
    if (frame->offset == num_unpacked) return true;
    return fail(
        fmt::format("by the seek table the frame at compressed byte {} begins at unpacked byte {}, what lies "
                    "before it has {}",
                    begin_frame, frame->offset, num_unpacked));
  }

  // What was taken of the header goes to zstd first.
  std::span<const std::byte> next_input(std::span<const std::byte> input) const {
    return num_fed < num_header ? std::span<const std::byte>(header).subspan(num_fed, num_header - num_fed) : input;
  }
  void take(std::span<const std::byte>& input, size_t count) {
    if (num_fed < num_header) {
      num_fed += count;
    } else {
      advance(input, count);
    }
  }

  // Unpacks a frame whose bytes are given when all of them are there. False when the input ends first, or after an
  // error.
  bool hold(std::span<const std::byte>& input, std::span<std::byte>& output) {
    const std::span<const std::byte> from = next_input(input);
    if (num_held == 0 && content && *content <= output.size() && num_fed == num_header && num_read == begin_frame) {
      const size_t frame_bytes = ZSTD_findFrameCompressedSize(from.data(), from.size());
      if (!ZSTD_isError(frame_bytes)) {
        const size_t count = ZSTD_decompressDCtx(context.get(), output.data(), *content, from.data(), frame_bytes);
        if (ZSTD_isError(count)) return fail(describe(begin_frame, count));
        advance(input, frame_bytes);
        output = output.subspan(count);
        num_unpacked += count;
        end_data(Part::kBetween);
        return true;
      }
    }
    // One byte more than there should be: a frame that has more is seen.
    const size_t most = content ? static_cast<size_t>(*content) + 1 : kMostHeld;
    if (held.size() < most) held.resize(content ? most : std::min(most, std::max<size_t>(2 * num_held, 64 << 10)));
    ZSTD_outBuffer out{held.data(), std::min(held.size(), most), num_held};
    ZSTD_inBuffer in{from.data(), from.size(), 0};
    const size_t code = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(code)) return fail(describe(begin_frame, code));
    take(input, in.pos);
    num_held = out.pos;
    if (content && num_held > *content) {
      return fail(fmt::format("the zstd frame at compressed byte {} unpacks to more than the {} bytes that it should",
                              begin_frame, *content));
    }
    if (code == 0) {
      num_unpacked += num_held;
      end_data(Part::kRelease);
      return true;
    }
    if (num_held == kMostHeld && !content) {  // too much to wait for the checksum
      num_unpacked += num_held;
      holds = false;
      part = Part::kRelease;
      return true;
    }
    return out.pos == out.size || num_fed < num_header || !input.empty();
  }

  // The same for one whose bytes are given as they come.
  bool give(std::span<const std::byte>& input, std::span<std::byte>& output) {
    if (output.empty()) return false;
    const std::span<const std::byte> from = next_input(input);
    ZSTD_outBuffer out{output.data(), output.size(), 0};
    ZSTD_inBuffer in{from.data(), std::min(from.size(), kUnheldInput), 0};
    const size_t code = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(code)) return fail(describe(begin_frame, code));
    take(input, in.pos);
    output = output.subspan(out.pos);
    num_unpacked += out.pos;
    if (code == 0) {
      end_data(Part::kBetween);
      return true;
    }
    return !output.empty() && (num_fed < num_header || !input.empty());
  }

  void end_data(Part next) {
    is_whole = true;
    part = next;
    if (finds_points && begin_unpacked > 0 && num_unpacked > begin_unpacked) {
      points.push_back({.bit = 8 * begin_frame, .offset = begin_unpacked, .stream_begin = begin_frame});
    }
  }

  const Context context;
  const std::shared_ptr<const FrameTable> frames;  // may be null
  Part part = Part::kBetween;
  std::array<std::byte, ZstdFrameHeader::kMostBytes> header{};
  size_t num_header = 0;  // bytes of it that were seen
  size_t num_fed = 0;     // of these, those that zstd has
  uint64_t begin_frame = 0;
  uint64_t to_skip = 0;
  std::optional<uint64_t> content;  // that the frame says it unpacks to
  bool holds = false;
  bool is_whole = false;  // the frame whose bytes are released
  std::vector<std::byte> held;
  size_t num_held = 0;
  size_t num_released = 0;
  bool is_promised = false;     // a seek table
  uint64_t num_read = 0;        // compressed bytes
  uint64_t num_unpacked = 0;    // up to here, those that are held included once they are good
  uint64_t begin_unpacked = 0;  // where the frame begins
  Error error;
  bool finds_points = false;
  std::vector<SeekPoint> points;
};

ZstdUnpacker::ZstdUnpacker(std::shared_ptr<const FrameTable> frames)
    : state_(std::make_unique<State>(std::move(frames))) {}

ZstdUnpacker::ZstdUnpacker(const SeekPoint& point, std::shared_ptr<const FrameTable> frames)
    : ZstdUnpacker(std::move(frames)) {
  if (!point.between_streams()) {
    throw ErrorException(ErrorCode::kIndex,
                         fmt::format("the seek point at unpacked byte {} lies inside a zstd frame", point.offset));
  }
  state_->num_read = state_->begin_frame = point.stream_begin;
  state_->num_unpacked = point.offset;
}

ZstdUnpacker::~ZstdUnpacker() = default;
ZstdUnpacker::ZstdUnpacker(ZstdUnpacker&&) noexcept = default;
ZstdUnpacker& ZstdUnpacker::operator=(ZstdUnpacker&&) noexcept = default;

ZstdUnpacker::Result ZstdUnpacker::run(std::span<const std::byte> input, std::span<std::byte> output) {
  const size_t input_size = input.size();
  const size_t output_size = output.size();
  const bool good = state_->run(input, output);
  const bool waits_for_room =
      state_->part == State::Part::kRelease || (state_->part == State::Part::kFrame && !state_->holds);
  const Status status = !good                              ? Status::kError
                        : output.empty() && waits_for_room ? Status::kOutputFull
                                                           : Status::kNeedInput;
  return {status, input_size - input.size(), output_size - output.size()};
}

void ZstdUnpacker::find_seek_points() { state_->finds_points = true; }
std::vector<SeekPoint> ZstdUnpacker::take_seek_points() { return std::exchange(state_->points, {}); }

bool ZstdUnpacker::finish() {
  using Part = State::Part;
  const auto cut = [this](std::string_view where) {
    return state_->fail(ErrorCode::kTruncated,
                        fmt::format("the file ends after {} compressed bytes, inside the {} that begins at byte {}",
                                    state_->num_read, where, state_->begin_frame));
  };
  switch (state_->part) {
    case Part::kFailed: return false;
    case Part::kHeader: return cut("header of the zstd frame");
    case Part::kSkipping: return cut("skippable zstd frame");
    case Part::kFrame:
    case Part::kRelease: return cut("zstd frame");
    case Part::kBetween: break;
  }
  if (!state_->is_promised) return true;
  return state_->fail(ErrorCode::kTruncated,
                      fmt::format("the file ends after {} compressed bytes, without the seek table that its beginning "
                                  "promises",
                                  state_->num_read));
}

const Error& ZstdUnpacker::error() const { return state_->error; }
uint64_t ZstdUnpacker::num_read() const { return state_->num_read; }
uint64_t ZstdUnpacker::frame_begin() const { return state_->begin_frame; }

struct ZstdFrameUnpacker::State {
  Context context = make_context();
};

ZstdFrameUnpacker::ZstdFrameUnpacker() : state_(std::make_unique<State>()) {}
ZstdFrameUnpacker::~ZstdFrameUnpacker() = default;

std::optional<Error> ZstdFrameUnpacker::unpack(std::span<const std::byte> frame, uint64_t begin,
                                               std::span<std::byte> output) {
  const size_t code =
      ZSTD_decompressDCtx(state_->context.get(), output.data(), output.size(), frame.data(), frame.size());
  if (ZSTD_isError(code)) return Error{.code = ErrorCode::kCompression, .message = describe(begin, code)};
  if (code == output.size()) return std::nullopt;
  return Error{.code = ErrorCode::kCompression,
               .message = fmt::format("the zstd frame at compressed byte {} unpacks to {} bytes, expected {}", begin,
                                      code, output.size())};
}

}  // namespace millrace
