#include "millrace/formats/compression/inflate.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/compression/deflate_decoder.h"
#include "millrace/formats/compression/stream_header.h"

namespace millrace {
namespace {

uint32_t little_endian(std::span<const uint8_t> bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= static_cast<uint32_t>(bytes[i]) << (8 * i);
  return value;
}

}  // namespace

struct Inflater::State {
  // Headers and trailers are read byte by byte. kBetween: no byte of the next stream was seen yet.
  enum class Part { kBetween, kHeader, kData, kTrailer, kFailed };

  State(Compression compression_, InflateEngine engine)
      : compression(compression_), decoder(make_deflate_decoder(compression, engine)), header(compression) {}

  bool gzip() const { return compression == Compression::kGzip; }

  bool fail(ErrorCode code, std::string message) {
    part = Part::kFailed;
    error = Error{.code = code, .message = std::move(message)};
    return false;
  }

  std::string_view stream_name() const { return gzip() ? "gzip member" : "zlib stream"; }

  bool bad_start(std::string_view what) {
    if (num_streams > 0) {
      return fail(ErrorCode::kCompression,
                  fmt::format("what follows at compressed byte {} after {} {}{} is no other one: {}", stream_begin,
                              num_streams, stream_name(), num_streams == 1 ? "" : "s", what));
    }
    return fail(ErrorCode::kCompression, fmt::format("not a {} file: {}", gzip() ? "gzip" : "zlib", what));
  }

  // One byte of a header or trailer. False after an error.
  bool take(uint8_t byte) {
    if (part == Part::kBetween) begin_stream();
    ++num_read;
    return part == Part::kHeader ? take_header(byte) : take_trailer(byte);
  }

  void begin_stream() {
    stream_begin = num_read;
    // A stream's beginning needs no window, so it is taken early.
    if (point_distance > 0 && num_unpacked_before + num_unpacked - last_point >= point_distance / 2) add_stream_point();
    num_unpacked_before += std::exchange(num_unpacked, 0);
    header.begin();
    part = Part::kHeader;
  }

  bool take_header(uint8_t byte) {
    switch (header.take(byte)) {
      case StreamHeader::Step::kMore: return true;
      case StreamHeader::Step::kNoHeader: return bad_start(header.problem());
      case StreamHeader::Step::kBadCrc:
        return fail(ErrorCode::kCompression,
                    fmt::format("the gzip header at compressed byte {} {}", stream_begin, header.problem()));
      case StreamHeader::Step::kDone: break;
    }
    decoder->begin_stream();
    part = Part::kData;
    return true;
  }

  void enter(const SeekPoint& point) {
    stream_begin = point.stream_begin;
    num_streams = point.num_streams;
    num_read = point.bit / 8;
    num_unpacked = point.stream_bytes;
    num_unpacked_before = point.offset - point.stream_bytes;
    if (point.between_streams()) return;
    decoder->enter_stream(point);
    part = Part::kData;
  }

  uint64_t num_unpacked_in_all() const { return num_unpacked_before + num_unpacked; }

  void add_stream_point() {
    last_point = num_unpacked_in_all();
    points.push_back(
        {.bit = 8 * stream_begin, .offset = last_point, .stream_begin = stream_begin, .num_streams = num_streams});
  }

  // How much may be unpacked before the next point is due. A point that is due is taken as soon as the decoder stands
  // in a place for one; up to there it goes on byte by byte.
  size_t find_point() {
    if (num_unpacked_in_all() < last_point + point_distance) {
      return static_cast<size_t>(std::min<uint64_t>(last_point + point_distance - num_unpacked_in_all(), SIZE_MAX));
    }
    std::optional<SeekPoint> point = decoder->mark();
    if (!point) return 1;
    last_point = num_unpacked_in_all();
    point->bit += 8 * num_read;
    point->offset = last_point;
    point->stream_begin = stream_begin;
    point->stream_bytes = num_unpacked;
    point->num_streams = num_streams;
    points.push_back(std::move(*point));
    return point_distance;
  }

  bool take_trailer(uint8_t byte) {
    trailer[num_trailer++] = byte;
    if (num_trailer < (gzip() ? 8U : 4U)) return true;
    uint32_t checksum = little_endian({trailer.data(), 4});
    if (!gzip()) checksum = __builtin_bswap32(checksum);
    if (checksum != decoder->checksum()) {
      return bad_trailer(fmt::format("the {} at compressed byte {} has the checksum {:08x}, its trailer says {:08x}",
                                     stream_name(), stream_begin, decoder->checksum(), checksum));
    }
    if (gzip()) {
      const uint32_t size = little_endian({trailer.data() + 4, 4});
      if (size != static_cast<uint32_t>(num_unpacked)) {
        return bad_trailer(
            fmt::format("the gzip member at compressed byte {} has {} bytes, its trailer says {} (modulo 2^32)",
                        stream_begin, num_unpacked, size));
      }
    }
    ++num_streams;
    part = Part::kBetween;
    return true;
  }

  bool bad_trailer(std::string message) {
    trailer_is_bad = true;
    return fail(ErrorCode::kCompression, std::move(message));
  }

  // Runs over `input` until something is used up. False after an error.
  bool run(std::span<const std::byte>& input, std::span<std::byte>& output) {
    for (;;) {
      if (part == Part::kFailed) return false;
      if (part != Part::kData) {
        if (input.empty()) return true;
        const auto byte = static_cast<uint8_t>(input.front());
        input = input.subspan(1);
        if (!take(byte)) return false;
        continue;
      }
      const size_t room = point_distance == 0 ? output.size() : std::min(output.size(), find_point());
      const DeflateDecoder::Result result = decoder->run(input, output.first(room));
      input = input.subspan(result.num_read);
      output = output.subspan(result.num_written);
      num_read += result.num_read;
      num_unpacked += result.num_written;
      if (result.status == DeflateDecoder::Status::kInvalid) {
        return fail(ErrorCode::kCompression,
                    fmt::format("damaged deflate data in the {} at compressed byte {}, found before byte {}",
                                stream_name(), stream_begin, num_read));
      }
      if (result.status == DeflateDecoder::Status::kDone) {
        num_trailer = 0;
        part = Part::kTrailer;
        const std::span<const std::byte> excess = decoder->excess();
        num_read -= excess.size();
        // Less than a trailer and the next header, or a few bytes of the next stream's data: they go first.
        pushed_back_count = excess.size();
        std::copy(excess.begin(), excess.end(), pushed_back.begin());
        if (pushed_back_count > 0) return true;
        continue;
      }
      if (output.empty() || result.num_read + result.num_written == 0) return true;
      // Where a point was due the decoder may hold back bytes for which there is room.
      if (input.empty() && result.num_written < room) return true;
    }
  }

  const Compression compression;
  const std::unique_ptr<DeflateDecoder> decoder;
  Part part = Part::kBetween;
  StreamHeader header;
  std::array<uint8_t, 8> trailer{};
  uint32_t num_trailer = 0;
  uint64_t stream_begin = 0;
  uint64_t num_streams = 0;
  uint64_t num_read = 0;
  uint64_t num_unpacked = 0;         // bytes of this stream
  uint64_t num_unpacked_before = 0;  // of the streams before
  bool trailer_is_bad = false;       // the error: reading can go on after it
  std::array<std::byte, 8> pushed_back{};
  size_t pushed_back_count = 0;
  Error error;
  uint64_t point_distance = 0;  // 0: no points are looked for
  uint64_t last_point = 0;      // its unpacked offset
  std::vector<SeekPoint> points;
};

Inflater::Inflater(Compression compression, InflateEngine engine)
    : state_(std::make_unique<State>(compression, engine)) {}
Inflater::Inflater(Compression compression, const SeekPoint& point, InflateEngine engine)
    : Inflater(compression, engine) {
  state_->enter(point);
}
Inflater::~Inflater() = default;
Inflater::Inflater(Inflater&&) noexcept = default;
Inflater& Inflater::operator=(Inflater&&) noexcept = default;

Inflater::Result Inflater::run(std::span<const std::byte> input, std::span<std::byte> output) {
  const size_t input_size = input.size();
  const size_t output_size = output.size();
  const auto result = [&](Status status) {
    return Result{status, input_size - input.size(), output_size - output.size()};
  };
  for (;;) {
    if (state_->pushed_back_count > 0) {
      const std::array<std::byte, 8> bytes = state_->pushed_back;
      const size_t count = std::exchange(state_->pushed_back_count, 0);
      std::span<const std::byte> part(bytes.data(), count);
      const bool good = state_->run(part, output);
      if (!part.empty()) {  // the output is full, or a stream ended inside: what it gave back comes first
        std::array<std::byte, 8> rest{};
        const size_t again = state_->pushed_back_count;
        std::copy_n(state_->pushed_back.begin(), again, rest.begin());
        std::copy(part.begin(), part.end(), rest.begin() + again);
        state_->pushed_back = rest;
        state_->pushed_back_count = again + part.size();
      }
      if (!good) return result(Status::kError);
    } else {
      if (!state_->run(input, output)) return result(Status::kError);
    }
    if (state_->pushed_back_count > 0 && !(output.empty() && state_->part == State::Part::kData)) continue;
    if (output.empty() && state_->part == State::Part::kData) return result(Status::kOutputFull);
    if (input.empty()) return result(Status::kNeedInput);
  }
}

bool Inflater::finish() {
  using Part = State::Part;
  switch (state_->part) {
    case Part::kFailed: return false;
    case Part::kBetween: return true;
    case Part::kData:
      return state_->fail(ErrorCode::kTruncated,
                          fmt::format("the file ends after {} compressed bytes, inside the data of the {} that begins "
                                      "at byte {}",
                                      state_->num_read, state_->stream_name(), state_->stream_begin));
    case Part::kTrailer:
      return state_->fail(ErrorCode::kTruncated,
                          fmt::format("the file ends after {} compressed bytes, inside the trailer of the {} that "
                                      "begins at byte {}",
                                      state_->num_read, state_->stream_name(), state_->stream_begin));
    case Part::kHeader: break;
  }
  return state_->fail(ErrorCode::kTruncated,
                      fmt::format("the file ends after {} compressed bytes, inside the header of the {} that "
                                  "begins at byte {}",
                                  state_->num_read, state_->stream_name(), state_->stream_begin));
}

bool Inflater::pass_bad_trailer() {
  if (!std::exchange(state_->trailer_is_bad, false)) return false;
  ++state_->num_streams;
  state_->part = State::Part::kBetween;
  return true;
}

void Inflater::find_seek_points(uint64_t distance) {
  if (distance == 0 || !state_->decoder->track()) {
    throw ErrorException(ErrorCode::kInvalidArgument, "seek points need a distance and InflateEngine::kZlib");
  }
  state_->point_distance = distance;
}

std::vector<SeekPoint> Inflater::take_seek_points() { return std::exchange(state_->points, {}); }

const Error& Inflater::error() const { return state_->error; }
uint64_t Inflater::num_read() const { return state_->num_read; }

}  // namespace millrace
