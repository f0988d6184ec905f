#include "formats/compression/inflate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include <zlib.h>

#ifdef MILLRACE_HAVE_ISAL
#include <isa-l/igzip_lib.h>
#endif
#include <fmt/format.h>

namespace millrace {
namespace {

// The deflate data of one stream after the other, without headers and trailers.
class DeflateDecoder {
 public:
  enum class Status { kMore, kDone, kInvalid };
  struct Result {
    Status status;
    size_t num_read;
    size_t num_written;
  };

  virtual ~DeflateDecoder() = default;
  virtual void begin_stream() = 0;
  virtual Result run(std::span<const std::byte> input, std::span<std::byte> output) = 0;
  // After kDone: the stream's CRC-32 (gzip) or Adler-32 (zlib), and bytes behind the stream that were taken too.
  virtual uint32_t checksum() const = 0;
  virtual std::span<const std::byte> excess() const { return {}; }
};

class ZlibDecoder final : public DeflateDecoder {
 public:
  explicit ZlibDecoder(Compression compression) : gzip_(compression == Compression::kGzip) {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ZlibDecoder(const ZlibDecoder&) = delete;
  ZlibDecoder& operator=(const ZlibDecoder&) = delete;
  ~ZlibDecoder() override { inflateEnd(&stream_); }

  void begin_stream() override {
    inflateReset(&stream_);
    checksum_ = static_cast<uint32_t>(gzip_ ? crc32(0, nullptr, 0) : adler32(0, nullptr, 0));
  }

  Result run(std::span<const std::byte> input, std::span<std::byte> output) override {
    constexpr size_t kLargest = std::numeric_limits<uInt>::max();
    const auto input_size = static_cast<uInt>(std::min(input.size(), kLargest));
    const auto output_size = static_cast<uInt>(std::min(output.size(), kLargest));
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));  // only read
    stream_.avail_in = input_size;
    stream_.next_out = reinterpret_cast<Bytef*>(output.data());
    stream_.avail_out = output_size;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    const uInt written = output_size - stream_.avail_out;
    const auto* bytes = reinterpret_cast<const Bytef*>(output.data());
    checksum_ = static_cast<uint32_t>(gzip_ ? crc32(checksum_, bytes, written) : adler32(checksum_, bytes, written));
    // Z_BUF_ERROR only says that nothing could be done this time.
    const Status status = code == Z_STREAM_END                  ? Status::kDone
                          : code == Z_OK || code == Z_BUF_ERROR ? Status::kMore
                                                                : Status::kInvalid;
    return {status, input_size - stream_.avail_in, written};
  }

  uint32_t checksum() const override { return checksum_; }

 private:
  z_stream stream_{};
  const bool gzip_;
  uint32_t checksum_ = 0;
};

#ifdef MILLRACE_HAVE_ISAL
class IsalDecoder final : public DeflateDecoder {
 public:
  explicit IsalDecoder(Compression compression) : gzip_(compression == Compression::kGzip) {
    isal_inflate_init(state_.get());
  }

  void begin_stream() override {
    isal_inflate_reset(state_.get());
    failed_ = false;
    state_->crc_flag = gzip_ ? ISAL_GZIP_NO_HDR : ISAL_ZLIB_NO_HDR;
  }

  Result run(std::span<const std::byte> input, std::span<std::byte> output) override {
    if (failed_) return give_held(output, {Status::kMore, 0, 0});
    *before_ = *state_;
    const Result result = step(input, output);
    if (result.status != Status::kInvalid) return result;
    // The fast loop counts a match before it looks whether there is something to match: in front of an error up to 258
    // bytes of its output are no data, and the count may be beyond the output. Byte by byte it takes the careful loop.
    *state_ = *before_;
    Result careful{Status::kMore, 0, 0};
    for (;;) {
      const std::span<const std::byte> next = input.subspan(careful.num_read);
      const std::span<std::byte> room = output.subspan(careful.num_written);
      const Result one = step(next.first(std::min<size_t>(next.size(), 1)), room);
      careful.num_read += one.num_read;
      careful.num_written += std::min(one.num_written, room.size());
      careful.status = one.status;
      if (one.status == Status::kInvalid) {
        // Bytes in front of the error for which there was no room.
        failed_ = true;
        held_.assign(state_->tmp_out_buffer + state_->tmp_out_processed,
                     state_->tmp_out_buffer + state_->tmp_out_valid);
        return give_held(output, careful);
      }
      if (one.status == Status::kDone || next.empty() || careful.num_written == output.size()) return careful;
    }
  }

  uint32_t checksum() const override { return state_->crc; }
  std::span<const std::byte> excess() const override { return {excess_.data(), num_excess_}; }

 private:
  // What is left in front of an error, then the error.
  Result give_held(std::span<std::byte> output, Result so_far) {
    output = output.subspan(so_far.num_written);
    const size_t count = std::min(output.size(), held_.size());
    std::copy_n(held_.begin(), count, reinterpret_cast<uint8_t*>(output.data()));
    held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(count));
    so_far.num_written += count;
    so_far.status = held_.empty() ? Status::kInvalid : Status::kMore;
    return so_far;
  }

  Result step(std::span<const std::byte> input, std::span<std::byte> output) {
    constexpr size_t kLargest = std::numeric_limits<int32_t>::max();
    const auto input_size = static_cast<uint32_t>(std::min(input.size(), kLargest));
    const auto output_size = static_cast<uint32_t>(std::min(output.size(), kLargest));
    state_->next_in = reinterpret_cast<uint8_t*>(const_cast<std::byte*>(input.data()));  // only read
    state_->avail_in = input_size;
    state_->next_out = reinterpret_cast<uint8_t*>(output.data());
    state_->avail_out = output_size;
    const int code = isal_inflate(state_.get());
    Status status = Status::kMore;
    if (code < 0) {
      status = Status::kInvalid;
    } else if (state_->block_state == ISAL_BLOCK_FINISH) {
      status = Status::kDone;
      // It reads ahead into a register: what is left there beyond the bits of the last byte is behind the stream.
      num_excess_ = static_cast<size_t>(state_->read_in_length) / 8;
      const uint64_t bits = state_->read_in >> (state_->read_in_length % 8);
      std::memcpy(excess_.data(), &bits, sizeof(bits));
    }
    return {status, input_size - state_->avail_in, output_size - state_->avail_out};
  }

  // Some 90 KB each; the copy costs about 1% of unpacking a chunk.
  std::unique_ptr<inflate_state> state_ = std::make_unique<inflate_state>();
  std::unique_ptr<inflate_state> before_ = std::make_unique<inflate_state>();
  const bool gzip_;
  std::array<std::byte, 8> excess_{};
  size_t num_excess_ = 0;
  bool failed_ = false;
  std::vector<uint8_t> held_;
};
#endif

std::unique_ptr<DeflateDecoder> make_decoder(Compression compression, [[maybe_unused]] InflateEngine engine) {
  if (compression == Compression::kNone) {
    throw ErrorException(ErrorCode::kInvalidArgument, "an Inflater needs a compression, got none");
  }
#ifdef MILLRACE_HAVE_ISAL
  if (engine == InflateEngine::kFastest) return std::make_unique<IsalDecoder>(compression);
#endif
  return std::make_unique<ZlibDecoder>(compression);
}

uint32_t little_endian(std::span<const uint8_t> bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= static_cast<uint32_t>(bytes[i]) << (8 * i);
  return value;
}

constexpr uint8_t kFlagHeaderCrc = 2;
constexpr uint8_t kFlagExtra = 4;
constexpr uint8_t kFlagName = 8;
constexpr uint8_t kFlagComment = 16;
constexpr uint8_t kFlagsReserved = 0xe0;

}  // namespace

struct Inflater::State {
  // Headers and trailers are read byte by byte. kBetween: no byte of the next stream was seen yet.
  enum class Part {
    kBetween,
    kFixedHeader,
    kExtraLength,
    kExtra,
    kName,
    kComment,
    kHeaderCrc,
    kData,
    kTrailer,
    kFailed,
  };

  State(Compression compression_, InflateEngine engine)
      : compression(compression_), decoder(make_decoder(compression, engine)) {}

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
    if (part == Part::kBetween) {
      stream_begin = num_read;
      header_crc = static_cast<uint32_t>(crc32(0, nullptr, 0));
      num_fixed = 0;
      part = Part::kFixedHeader;
    }
    if (part < Part::kHeaderCrc) header_crc = static_cast<uint32_t>(crc32(header_crc, &byte, 1));
    ++num_read;
    switch (part) {
      case Part::kFixedHeader: return gzip() ? take_gzip_header(byte) : take_zlib_header(byte);
      case Part::kExtraLength:
        fixed[num_fixed++] = byte;
        if (num_fixed == 2) {
          num_extra = little_endian({fixed.data(), 2});
          part = Part::kExtra;
          if (num_extra == 0) next_header_part();
        }
        return true;
      case Part::kExtra:
        if (--num_extra == 0) next_header_part();
        return true;
      case Part::kName:
      case Part::kComment:
        if (byte == 0) next_header_part();
        return true;
      case Part::kHeaderCrc:
        fixed[num_fixed++] = byte;
        if (num_fixed < 2) return true;
        if (const uint32_t found = little_endian({fixed.data(), 2}); found != (header_crc & 0xffff)) {
          return fail(ErrorCode::kCompression,
                      fmt::format("the gzip header at compressed byte {} has the CRC {:04x}, its field says {:04x}",
                                  stream_begin, header_crc & 0xffff, found));
        }
        next_header_part();
        return true;
      case Part::kTrailer: return take_trailer(byte);
      default: return true;
    }
  }

  bool take_gzip_header(uint8_t byte) {
    fixed[num_fixed++] = byte;
    if (num_fixed == 1 && byte != 0x1f) return bad_start(fmt::format("it begins with {:02x}, expected 1f 8b", byte));
    if (num_fixed == 2 && byte != 0x8b) return bad_start(fmt::format("it begins with 1f {:02x}, expected 1f 8b", byte));
    if (num_fixed == 3 && byte != 8) return bad_start(fmt::format("compression method {}, only 8 is defined", byte));
    if (num_fixed == 4 && (byte & kFlagsReserved) != 0) {
      return bad_start(fmt::format("reserved flags are set in {:02x}", byte));
    }
    if (num_fixed < 10) return true;  // time, extra flags and operating system mean nothing here
    flags = fixed[3];
    next_header_part();
    return true;
  }

  bool take_zlib_header(uint8_t byte) {
    fixed[num_fixed++] = byte;
    if (num_fixed == 1) {
      if ((byte & 0x0f) != 8 || (byte >> 4) > 7) {
        return bad_start(fmt::format("its first byte {:02x} names no deflate data with a window up to 32 KiB", byte));
      }
      return true;
    }
    if ((fixed[0] * 256 + byte) % 31 != 0) {
      return bad_start(fmt::format("the check bits of its header {:02x} {:02x} are wrong", fixed[0], byte));
    }
    if ((byte & 0x20) != 0) return bad_start("it needs a preset dictionary");
    begin_data();
    return true;
  }

  // Goes on to the first optional part behind `part` that the flags announce, else to the data.
  void next_header_part() {
    num_fixed = 0;
    const auto announced = [this](Part candidate, uint8_t flag) {
      if (part >= candidate || (flags & flag) == 0) return false;
      part = candidate;
      return true;
    };
    if (part == Part::kFixedHeader && (flags & kFlagExtra) != 0) {
      part = Part::kExtraLength;
      return;
    }
    if (announced(Part::kName, kFlagName) || announced(Part::kComment, kFlagComment) ||
        announced(Part::kHeaderCrc, kFlagHeaderCrc)) {
      return;
    }
    begin_data();
  }

  void begin_data() {
    decoder->begin_stream();
    num_unpacked = 0;
    part = Part::kData;
  }

  bool take_trailer(uint8_t byte) {
    fixed[num_fixed++] = byte;
    if (num_fixed < (gzip() ? 8U : 4U)) return true;
    uint32_t checksum = little_endian({fixed.data(), 4});
    if (!gzip()) checksum = __builtin_bswap32(checksum);
    if (checksum != decoder->checksum()) {
      return fail(ErrorCode::kCompression,
                  fmt::format("the {} at compressed byte {} has the checksum {:08x}, its trailer says {:08x}",
                              stream_name(), stream_begin, decoder->checksum(), checksum));
    }
    if (gzip()) {
      const uint32_t size = little_endian({fixed.data() + 4, 4});
      if (size != static_cast<uint32_t>(num_unpacked)) {
        return fail(ErrorCode::kCompression,
                    fmt::format("the gzip member at compressed byte {} has {} bytes, its trailer says {} (modulo 2^32)",
                                stream_begin, num_unpacked, size));
      }
    }
    ++num_streams;
    part = Part::kBetween;
    return true;
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
      const DeflateDecoder::Result result = decoder->run(input, output);
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
        num_fixed = 0;
        part = Part::kTrailer;
        const std::span<const std::byte> excess = decoder->excess();
        num_read -= excess.size();
        // Less than a trailer and the next header, or a few bytes of the next stream's data: they go first.
        pushed_back_count = excess.size();
        std::copy(excess.begin(), excess.end(), pushed_back.begin());
        if (pushed_back_count > 0) return true;
        continue;
      }
      if (output.empty() || result.num_read + result.num_written == 0 || input.empty()) return true;
    }
  }

  const Compression compression;
  const std::unique_ptr<DeflateDecoder> decoder;
  Part part = Part::kBetween;
  std::array<uint8_t, 10> fixed{};  // bytes of a field of fixed size
  uint32_t num_fixed = 0;
  uint8_t flags = 0;
  uint32_t num_extra = 0;
  uint32_t header_crc = 0;
  uint64_t stream_begin = 0;
  uint64_t num_streams = 0;
  uint64_t num_read = 0;
  uint64_t num_unpacked = 0;  // bytes of this stream
  std::array<std::byte, 8> pushed_back{};
  size_t pushed_back_count = 0;
  Error error;
};

Inflater::Inflater(Compression compression, InflateEngine engine)
    : state_(std::make_unique<State>(compression, engine)) {}
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
      if (!part.empty() && good) {  // the output is full, or a stream ended inside: what it gave back comes first
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
    default:
      return state_->fail(ErrorCode::kTruncated,
                          fmt::format("the file ends after {} compressed bytes, inside the header of the {} that "
                                      "begins at byte {}",
                                      state_->num_read, state_->stream_name(), state_->stream_begin));
  }
}

const Error& Inflater::error() const { return state_->error; }
uint64_t Inflater::num_read() const { return state_->num_read; }

namespace {

constexpr size_t kEnough = 1 << 20;  // a few bytes may unpack to gigabytes

struct Unpacked {
  std::string bytes;
  bool good;
};

Unpacked unpack_in_pieces(std::string_view bytes, Compression compression, InflateEngine engine, uint64_t sizes) {
  Inflater inflater(compression, engine);
  Unpacked unpacked{{}, true};
  std::array<std::byte, 512> room;
  auto input = std::as_bytes(std::span(bytes));
  for (size_t piece = 0;;) {
    sizes = sizes * 6364136223846793005U + 1442695040888963407U;
    if (piece == 0) piece = std::min<size_t>(input.size(), 1 + (sizes >> 33) % ((sizes & 1) != 0 ? 5 : 400));
    const size_t output = 1 + (sizes >> 40) % room.size();
    const Inflater::Result result = inflater.run(input.first(piece), std::span(room).first(output));
    if (result.num_read > piece || result.num_written > output) __builtin_trap();
    unpacked.bytes.append(reinterpret_cast<const char*>(room.data()), result.num_written);
    input = input.subspan(result.num_read);
    piece -= result.num_read;
    if (result.status == Inflater::Status::kError || unpacked.bytes.size() > kEnough) {
      unpacked.good = result.status != Inflater::Status::kError;
      return unpacked;
    }
    if (result.status == Inflater::Status::kNeedInput) {
      if (piece != 0) __builtin_trap();
      if (input.empty()) {
        unpacked.good = inflater.finish();
        return unpacked;
      }
    } else if (result.num_written != output) {
      __builtin_trap();
    }
  }
}

}  // namespace

void fuzz_inflater(std::string_view bytes) {
  const auto expect = [](bool condition) {
    if (!condition) __builtin_trap();
  };
  const uint64_t sizes = bytes.empty() ? 0 : static_cast<unsigned char>(bytes.back());
  for (const Compression compression : {Compression::kZlib, Compression::kGzip}) {
    const Unpacked one = unpack_in_pieces(bytes, compression, InflateEngine::kFastest, sizes);
    const Unpacked again = unpack_in_pieces(bytes, compression, InflateEngine::kFastest, sizes + 1);
    const Unpacked zlib = unpack_in_pieces(bytes, compression, InflateEngine::kZlib, sizes + 2);
    if (one.bytes.size() >= kEnough || again.bytes.size() >= kEnough || zlib.bytes.size() >= kEnough) continue;
    // How the bytes are cut changes nothing, also in front of damage.
    expect(one.good == again.good && one.bytes == again.bytes);
    // zlib refuses tables of codes that leave codes unused; ISA-L goes on, and the checksum decides. Up to there both
    // give the same.
    expect(one.bytes.starts_with(zlib.bytes));
    expect(!zlib.good || (one.good && one.bytes == zlib.bytes));
  }
}

}  // namespace millrace
