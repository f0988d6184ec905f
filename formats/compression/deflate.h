#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "millrace/formats/compression/compression.h"

namespace millrace {

/// Compresses a stream of bytes as one zlib stream or gzip member (through zlib; the time in gzip headers is 0, so the
/// same bytes in give the same bytes out). One thread at a time.
class Deflater {
 public:
  /// `compression` is kZlib or kGzip. `level` is zlib's, 0 (stored) to 9, or -1 for its default (6).
  /// Throws kInvalidArgument for other values.
  Deflater(Compression compression, int level);
  ~Deflater();
  Deflater(Deflater&&) noexcept;
  Deflater& operator=(Deflater&&) noexcept;

  /// Compresses `bytes` and appends what is ready to `out`.
  void write(std::string_view bytes, std::string& out);
  /// Appends all that was written so far, so that a reader can get it. Costs compression.
  void flush(std::string& out);
  /// Appends the end of the stream with its checksum. Nothing may follow.
  void finish(std::string& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
