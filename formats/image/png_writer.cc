#include "millrace/formats/image/png_writer.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <png.h>

#include "millrace/formats/error.h"
#include "millrace/formats/image/library_calls.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw ErrorException(ErrorCode::kInvalidArgument, why); }

bool append(std::string& bytes, std::string_view more) noexcept {
  try {
    bytes += more;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace

struct PngWriter::State {
  State(int64_t rows, int64_t columns, int channels)
      : rows_left(rows), row_bytes(static_cast<size_t>(columns) * static_cast<size_t>(channels)) {}
  ~State() { png_destroy_write_struct(&png, &info); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void open(png_uint_32 rows, png_uint_32 columns, int channels);
  std::string take_bytes() { return std::exchange(bytes, {}); }

  static State& of(png_structp png) { return *static_cast<State*>(png_get_error_ptr(png)); }
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    State& state = of(png);
    if (state.lacks_memory) state.calls.fail_for_memory();
    state.calls.fail_with(ErrorCode::kInvalidArgument, "no PNG can be written: {}", std::string_view(message));
  }
  static void on_write(png_structp png, png_bytep data, size_t count) {
    State& state = of(png);
    if (!append(state.bytes, {reinterpret_cast<const char*>(data), count})) state.calls.fail_for_memory();
  }
  static png_voidp on_allocate(png_structp png, png_alloc_size_t size) {
    void* const memory = std::malloc(size);
    if (memory == nullptr) static_cast<State*>(png_get_mem_ptr(png))->lacks_memory = true;
    return memory;
  }

  png_structp png = nullptr;
  png_infop info = nullptr;
  LibraryCalls calls;
  std::string bytes;
  int64_t rows_left;
  size_t row_bytes;
  bool lacks_memory = false;
  bool is_finished = false;
};

void PngWriter::State::open(png_uint_32 rows, png_uint_32 columns, int channels) {
  png = png_create_write_struct_2(
      PNG_LIBPNG_VER_STRING, this, on_error, [](png_structp, png_const_charp) {}, this, on_allocate,
      [](png_structp, png_voidp memory) { std::free(memory); });
  if (png != nullptr) info = png_create_info_struct(png);
  if (info == nullptr) calls.fail_for_memory();
  png_set_write_fn(png, this, on_write, [](png_structp) {});
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  const int color = channels == 1 ? PNG_COLOR_TYPE_GRAY : channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_RGBA;
  constexpr int kBits = 8;
  png_set_IHDR(png, info, columns, rows, kBits, color, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
}

PngWriter::PngWriter(int64_t height, int64_t width, int channels) {
  constexpr int64_t kMostSide = PNG_UINT_31_MAX;
  if (height < 1 || width < 1 || height > kMostSide || width > kMostSide) {
    refuse(fmt::format("a PNG of {} × {} pixels; sides have 1 to {}", height, width, kMostSide));
  }
  if (channels != 1 && channels != 3 && channels != 4) {
    refuse(fmt::format("a PNG of {} channels; it has 1, 3 or 4", channels));
  }
  state_ = std::make_unique<State>(height, width, channels);
  state_->calls.run([&] { state_->open(static_cast<png_uint_32>(height), static_cast<png_uint_32>(width), channels); });
}

PngWriter::~PngWriter() = default;
PngWriter::PngWriter(PngWriter&&) noexcept = default;
PngWriter& PngWriter::operator=(PngWriter&&) noexcept = default;

std::string PngWriter::write_rows(std::span<const uint8_t> pixels) {
  State& state = *state_;
  const size_t num_rows = pixels.size() / state.row_bytes;
  if (pixels.size() % state.row_bytes != 0) {
    refuse(fmt::format("{} bytes of pixels are no whole rows of {}", pixels.size(), state.row_bytes));
  }
  if (std::cmp_greater(num_rows, state.rows_left)) {
    refuse(fmt::format("{} rows of a PNG that has room for {} more", num_rows, state.rows_left));
  }
  state.calls.run([&] {
    for (size_t row = 0; row < num_rows; ++row) png_write_row(state.png, pixels.data() + row * state.row_bytes);
  });
  state.rows_left -= static_cast<int64_t>(num_rows);
  return state.take_bytes();
}

std::string PngWriter::finish() {
  State& state = *state_;
  if (state.rows_left > 0) refuse(fmt::format("a PNG lacks its last {} rows", state.rows_left));
  if (std::exchange(state.is_finished, true)) refuse("a PNG is finished twice");
  state.calls.run([&] { png_write_end(state.png, state.info); });
  return state.take_bytes();
}

std::string write_png(std::span<const uint8_t> pixels, int64_t height, int64_t width, int channels) {
  PngWriter png(height, width, channels);
  std::string bytes = png.write_rows(pixels);
  return bytes += png.finish();
}

}  // namespace millrace
