#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace millrace {

/// Writes a picture of 8 bits a channel as PNG, with libpng, some rows at a time: neither the picture nor the file need
/// be in memory.
///
///     PngWriter png(height, width, 3);
///     while (more) file.write(png.write_rows(rows));
///     file.write(png.finish());
///
/// Errors are ErrorExceptions of `invalid_argument`; after one only destruction is left. One thread at a time.
class PngWriter {
 public:
  /// Sides of 1 to 2^31 - 1 pixels; `channels`: 1 grey, 3 red, green, blue, 4 these and alpha. Throws for others.
  PngWriter(int64_t height, int64_t width, int channels);
  ~PngWriter();
  PngWriter(PngWriter&&) noexcept;
  PngWriter& operator=(PngWriter&&) noexcept;

  /// The next rows, rows × width × channels. Returns bytes of the file, those that are ready. Throws for what is no
  /// whole rows, and for more than are left.
  [[nodiscard]] std::string write_rows(std::span<const uint8_t> pixels);
  /// The last bytes of the file. Once; throws while rows are missing.
  [[nodiscard]] std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A whole picture, height × width × channels, as PNG. Throws as PngWriter.
[[nodiscard]] std::string write_png(std::span<const uint8_t> pixels, int64_t height, int64_t width, int channels);

}  // namespace millrace
