#include "millrace/formats/compression/deflate.h"

#include <algorithm>
#include <limits>
#include <new>

#include <fmt/format.h>
#include <zlib.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

constexpr size_t kOutputStep = 64 << 10;

}  // namespace

struct Deflater::State {
  z_stream stream{};

  State(Compression compression, int level) {
    if (compression != Compression::kZlib && compression != Compression::kGzip) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("a Deflater writes ZLIB or GZIP, not {}", to_string(compression)));
    }
    if (level < -1 || level > 9) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("compression level {}: expected -1 (the default of zlib) or 0 to 9", level));
    }
    const int window_bits = compression == Compression::kGzip ? MAX_WBITS + 16 : MAX_WBITS;
    if (deflateInit2(&stream, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::bad_alloc();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { deflateEnd(&stream); }

  void run(std::string_view bytes, int flush, std::string& out) {
    do {
      const size_t step = std::min<size_t>(bytes.size(), std::numeric_limits<uInt>::max());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // only read
      stream.avail_in = static_cast<uInt>(step);
      bytes.remove_prefix(step);
      do {
        const size_t before = out.size();
        out.resize(before + kOutputStep);
        stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
        stream.avail_out = kOutputStep;
        deflate(&stream, bytes.empty() ? flush : Z_NO_FLUSH);  // cannot fail with a valid state and room for output
        out.resize(before + kOutputStep - stream.avail_out);
      } while (stream.avail_out == 0);
    } while (!bytes.empty());
  }
};

Deflater::Deflater(Compression compression, int level) : state_(std::make_unique<State>(compression, level)) {}
Deflater::~Deflater() = default;
Deflater::Deflater(Deflater&&) noexcept = default;
Deflater& Deflater::operator=(Deflater&&) noexcept = default;

void Deflater::write(std::string_view bytes, std::string& out) { state_->run(bytes, Z_NO_FLUSH, out); }
void Deflater::flush(std::string& out) { state_->run({}, Z_SYNC_FLUSH, out); }
void Deflater::finish(std::string& out) { state_->run({}, Z_FINISH, out); }

}  // namespace millrace
