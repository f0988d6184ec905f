#include "millrace/formats/compression/deflate_decoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include <zlib.h>

#ifdef MILLRACE_HAVE_ISAL
#include <isa-l/igzip_lib.h>
#endif
#include <fmt/format.h>

namespace millrace {
namespace {

// zlib. It can stop between blocks and tell where it is between symbols (Z_BLOCK, Z_TREES, inflateMark), and go on
// there (inflatePrime, inflateSetDictionary).
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
    bits_to_drop_ = 0;
    begin_header(0);
  }

  void enter_stream(const SeekPoint& point) override {
    begin_stream();
    checksum_ = point.checksum;
    const std::string window = unpack_window(point);
    inflateSetDictionary(&stream_, reinterpret_cast<const Bytef*>(window.data()), static_cast<uInt>(window.size()));
    if (point.num_header_bits > 0) feed_header(point);
    bits_to_drop_ = static_cast<int>(point.bit % 8);
  }

  Result run(std::span<const std::byte> input, std::span<std::byte> output) override {
    constexpr size_t kLargest = std::numeric_limits<uInt>::max();
    size_t num_primed = 0;
    if (bits_to_drop_ > 0 && !input.empty()) {
      last_byte_ = static_cast<uint8_t>(input.front());
      inflatePrime(&stream_, 8 - bits_to_drop_, last_byte_ >> bits_to_drop_);
      bits_to_drop_ = 0;
      input = input.subspan(1);
      num_primed = 1;
    }
    const auto input_size = static_cast<uInt>(std::min(input.size(), kLargest));
    const auto output_size = static_cast<uInt>(std::min(output.size(), kLargest));
    std::byte nowhere{};
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));  // only read
    stream_.avail_in = input_size;
    stream_.next_out = reinterpret_cast<Bytef*>(output.empty() ? &nowhere : output.data());
    stream_.avail_out = output_size;
    const int code = inflate(&stream_, tracking_ ? Z_TREES : stop_at_blocks_ ? Z_BLOCK : Z_NO_FLUSH);
    const uInt written = output_size - stream_.avail_out;
    const auto* bytes = reinterpret_cast<const Bytef*>(output.data());
    if (written > 0) {
      checksum_ = static_cast<uint32_t>(gzip_ ? crc32(checksum_, bytes, written) : adler32(checksum_, bytes, written));
    }
    const auto taken = input.first(input_size - stream_.avail_in);
    if (!taken.empty()) last_byte_ = static_cast<uint8_t>(taken.back());
    if (tracking_) follow_header(taken);
    // Z_BUF_ERROR only says that nothing could be done this time.
    const Status status = code == Z_STREAM_END                  ? Status::kDone
                          : code == Z_OK || code == Z_BUF_ERROR ? Status::kMore
                                                                : Status::kInvalid;
    return {status, num_primed + taken.size(), written};
  }

  uint32_t checksum() const override { return checksum_; }

  bool track() override {
    tracking_ = true;
    return true;
  }

  std::optional<SeekPoint> mark() override {
    SeekPoint point;
    uint64_t bits_back = num_unused_bits();
    if (!between_blocks()) {
      const long where = inflateMark(&stream_);
      const long code_bits = where >> 16;
      if (in_header_ || code_bits < 0 || (where & 0xffff) != 0) return std::nullopt;
      bits_back += static_cast<uint64_t>(code_bits);
      put_header(point);
    }
    point.bit = 0 - bits_back;
    point.checksum = checksum_;
    const std::string last = window();
    point.window_bytes = static_cast<uint32_t>(last.size());
    point.packed_window = pack_window(last);
    return point;
  }

  // For a decoder that goes on from the next place between two blocks.
  void stop_at_blocks() { stop_at_blocks_ = true; }
  // Whether it stands between two blocks. After the last one there is nothing to go on with.
  bool between_blocks() const { return (stream_.data_type & 128) != 0 && (stream_.data_type & 64) == 0; }
  // Bits of the last byte that was taken which are still to be decoded: the uppermost ones.
  uint32_t num_unused_bits() const { return static_cast<uint32_t>(stream_.data_type & 63); }
  uint8_t last_byte() const { return last_byte_; }
  // The last bytes that were written, up to 32 KiB.
  std::string window() {
    std::string bytes(kWindowBytes, '\0');
    uInt size = 0;
    inflateGetDictionary(&stream_, reinterpret_cast<Bytef*>(bytes.data()), &size);
    bytes.resize(size);
    return bytes;
  }

 private:
  void begin_header(uint32_t num_bits_of_last_byte) {
    in_header_ = true;
    header_.clear();
    header_skip_ = 0;
    if (num_bits_of_last_byte == 0) return;
    header_.push_back(static_cast<char>(last_byte_));
    header_skip_ = 8 - num_bits_of_last_byte;
  }

  // Keeps the bits of the block's header as they go by.
  void follow_header(std::span<const std::byte> taken) {
    if (in_header_) header_.append(reinterpret_cast<const char*>(taken.data()), taken.size());
    if ((stream_.data_type & 128) != 0) {
      begin_header(num_unused_bits());
    } else if (in_header_ && (stream_.data_type & 256) != 0) {
      in_header_ = false;
      num_header_bits_ = static_cast<uint32_t>(8 * header_.size()) - header_skip_ - num_unused_bits();
    }
  }

  // The header shifted so that it begins with a byte.
  void put_header(SeekPoint& point) const {
    point.num_header_bits = num_header_bits_;
    for (size_t i = 0; i < (num_header_bits_ + 7) / 8; ++i) {
      uint32_t bits = static_cast<uint8_t>(header_[i]);
      if (i + 1 < header_.size()) bits |= static_cast<uint32_t>(static_cast<uint8_t>(header_[i + 1])) << 8;
      point.header.push_back(static_cast<char>(bits >> header_skip_));
    }
  }

  void feed_header(const SeekPoint& point) {
    std::byte nowhere{};
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(point.header.data()));  // only read
    stream_.avail_in = static_cast<uInt>(point.header.size());
    stream_.next_out = reinterpret_cast<Bytef*>(&nowhere);
    stream_.avail_out = 0;
    const int code = inflate(&stream_, Z_TREES);
    const uint64_t num_bits = 8 * (point.header.size() - stream_.avail_in) - num_unused_bits();
    if (code < 0 || (stream_.data_type & 256) == 0 || num_bits != point.num_header_bits) {
      throw ErrorException(ErrorCode::kIndex,
                           fmt::format("the block header of the seek point at unpacked byte {} is none", point.offset));
    }
    inflatePrime(&stream_, -1, 0);
  }

  z_stream stream_{};
  const bool gzip_;
  uint32_t checksum_ = 0;
  uint8_t last_byte_ = 0;
  int bits_to_drop_ = 0;  // of the byte that comes next: before the point that was entered
  bool stop_at_blocks_ = false;
  bool tracking_ = false;
  bool in_header_ = false;
  std::string header_;        // of the block, from the byte that its first bit is in
  uint32_t header_skip_ = 0;  // bits of that byte before it
  uint32_t num_header_bits_ = 0;
};

#ifdef MILLRACE_HAVE_ISAL
// ISA-L: two to three times as fast. It can go on between two blocks only; up to the first such place after a seek
// point zlib decodes.
class IsalDecoder final : public DeflateDecoder {
 public:
  explicit IsalDecoder(Compression compression) : gzip_(compression == Compression::kGzip) {
    isal_inflate_init(state_.get());
  }

  void begin_stream() override {
    bridge_.reset();
    num_excess_ = 0;
    isal_inflate_reset(state_.get());
    failed_ = false;
    state_->crc_flag = gzip_ ? ISAL_GZIP_NO_HDR : ISAL_ZLIB_NO_HDR;
  }

  void enter_stream(const SeekPoint& point) override {
    begin_stream();
    bridge_.emplace(gzip_ ? Compression::kGzip : Compression::kZlib);
    bridge_->enter_stream(point);
    bridge_->stop_at_blocks();
  }

  Result run(std::span<const std::byte> input, std::span<std::byte> output) override {
    if (bridge_) {
      const Result result = bridge_->run(input, output);
      if (result.status == Status::kMore && bridge_->between_blocks()) take_over();
      return result;
    }
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

  uint32_t checksum() const override { return bridge_ ? bridge_->checksum() : state_->crc; }
  std::span<const std::byte> excess() const override { return {excess_.data(), num_excess_}; }

 private:
  // Goes on where the bridge stands, between two blocks.
  void take_over() {
    uint32_t checksum = bridge_->checksum();
    // While it goes on, ISA-L keeps Adler-32 with its lower sum less one.
    constexpr uint32_t kAdlerBase = 65521;
    if (!gzip_) checksum = (checksum & 0xffff0000) | (((checksum & 0xffff) + kAdlerBase - 1) % kAdlerBase);
    state_->crc = checksum;
    std::string window = bridge_->window();
    isal_inflate_set_dict(state_.get(), reinterpret_cast<uint8_t*>(window.data()),
                          static_cast<uint32_t>(window.size()));
    state_->read_in_length = static_cast<int32_t>(bridge_->num_unused_bits());
    state_->read_in = static_cast<uint64_t>(bridge_->last_byte()) >> (8 - state_->read_in_length);
    bridge_.reset();
  }

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
      // It reads ahead into a register: what is left there beyond the bits of the last byte is after the stream.
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
  std::optional<ZlibDecoder> bridge_;  // from a seek point to the end of its block
  std::array<std::byte, 8> excess_{};
  size_t num_excess_ = 0;
  bool failed_ = false;
  std::vector<uint8_t> held_;
};
#endif

}  // namespace

std::unique_ptr<DeflateDecoder> make_deflate_decoder(Compression compression, [[maybe_unused]] InflateEngine engine) {
  if (compression != Compression::kZlib && compression != Compression::kGzip) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         "an Inflater unpacks ZLIB or GZIP, not " + std::string(to_string(compression)));
  }
#ifdef MILLRACE_HAVE_ISAL
  if (engine == InflateEngine::kFastest) return std::make_unique<IsalDecoder>(compression);
#endif
  return std::make_unique<ZlibDecoder>(compression);
}

}  // namespace millrace
