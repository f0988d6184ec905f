#include "millrace/formats/compression/seek_point.h"

#include <new>

#include <fmt/format.h>
#include <zlib.h>

#include "millrace/formats/error.h"

namespace millrace {
namespace {

Bytef* writable(std::string_view bytes) {  // zlib only reads it
  return reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
}

}  // namespace

std::string pack_window(std::string_view window) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string packed(deflateBound(&stream, static_cast<uLong>(window.size())), '\0');
  stream.next_in = writable(window);
  stream.avail_in = static_cast<uInt>(window.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);  // the room is enough
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string unpack_window(const SeekPoint& point) {
  if (point.window_bytes == 0 && point.packed_window.empty()) return {};
  std::string window(point.window_bytes, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  char beyond = 0;  // zlib wants a place also for no bytes
  stream.next_in = writable(point.packed_window);
  stream.avail_in = static_cast<uInt>(point.packed_window.size());
  stream.next_out = reinterpret_cast<Bytef*>(window.empty() ? &beyond : window.data());
  stream.avail_out = static_cast<uInt>(window.size());
  const int code = inflate(&stream, Z_FINISH);
  const bool good = code == Z_STREAM_END && stream.avail_out == 0 && stream.avail_in == 0;
  inflateEnd(&stream);
  if (!good) {
    throw ErrorException(ErrorCode::kIndex,
                         fmt::format("the window of the seek point at unpacked byte {} does not unpack to its {} bytes",
                                     point.offset, point.window_bytes));
  }
  return window;
}

}  // namespace millrace
