#include "benchmarks/floor/jpeg_filler.h"

#include <algorithm>
#include <array>
#include <cstdio>  // jpeglib.h needs it
#include <vector>

#include <jpeglib.h>

#include "benchmarks/floor/picture_loops.h"
#include "benchmarks/workload_features.h"
#include "millrace/formats/error.h"
#include "millrace/formats/example/parser.h"
#include "millrace/formats/image/library_calls.h"
#include "millrace/formats/random/counter_rng.h"
#include "millrace/ops/operator.h"

namespace millrace {
namespace {

constexpr auto kSide = static_cast<size_t>(kPictureSide);
constexpr size_t kChannels = 3;

class JpegFiller final : public RowFiller {
 public:
  JpegFiller(std::shared_ptr<const ExampleParser> parser, uint64_t seed, bool scaled)
      : parser_(std::move(parser)),
        decoding_(jpeg_decoding(seed, scaled)),
        window_(*decoding_.crop, "jpeg"),
        resized_(kSide * kChannels + 1) {
    const NormalizeOptions normalization = picture_normalization();
    for (size_t i = 0; i < kSide * kChannels; ++i) {
      means_.push_back(static_cast<float>(normalization.mean[i % kChannels]));
      deviations_.push_back(static_cast<float>(normalization.standard_deviation[i % kChannels]));
    }
    jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr jpeg) {
      auto& calls = *static_cast<LibraryCalls*>(jpeg->client_data);
      std::array<char, JMSG_LENGTH_MAX> message;
      jpeg->err->format_message(jpeg, message.data());
      calls.fail(ErrorCode::kParse, message.data());
    };
    // Damage that libjpeg overlooks gives other pixels than the engine's, which are compared.
    errors_.emit_message = [](j_common_ptr, int) {};
    jpeg_.err = &errors_;
    jpeg_.client_data = &calls_;
    calls_.run([this] { jpeg_create_decompress(&jpeg_); });
  }
  ~JpegFiller() override { jpeg_destroy_decompress(&jpeg_); }
  JpegFiller(const JpegFiller&) = delete;
  JpegFiller& operator=(const JpegFiller&) = delete;

  void fill(const ScheduledBatch& batch, size_t row, std::string_view record, FloorBatch& out) override {
    std::string_view encoded;
    const std::array<std::byte*, 2> places = {reinterpret_cast<std::byte*>(&encoded),
                                              reinterpret_cast<std::byte*>(out.values<int64_t>(1) + row)};
    if (auto error = parser_->parse(record, pool_, places)) throw ErrorException(*std::move(error));
    const uint64_t number = static_cast<uint64_t>(batch.ordinal) + row;
    start(encoded, CounterRng(decoding_.seed, operator_id("decode_image"), batch.iteration), number);
    // See AugmentImagesOperator::drawn.
    const CounterRng flips(decoding_.seed, operator_id("augment_images"), batch.iteration);
    rows_.assign(region_.height, kPictureSide, /*reversed=*/false);
    columns_.assign(region_.width, kPictureSide, /*reversed=*/(flips.words(number)[1] >> 31) != 0);
    calls_.run([this, pixels = out.values<float>(0) + row * kSide * kSide * kChannels] { decode(pixels); });
  }

 private:
  // Reads the header and draws the window.
  void start(std::string_view encoded, const CounterRng& rng, uint64_t number) {
    calls_.run([&] {
      jpeg_abort_decompress(&jpeg_);
      jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size());
      jpeg_read_header(&jpeg_, TRUE);
      jpeg_.out_color_space = JCS_RGB;
    });
    region_ = window_.window(jpeg_.image_height, jpeg_.image_width, rng, number);
    const auto divided = [](int64_t size, int64_t by) { return (size + by - 1) / by; };
    int64_t scale = 1;
    while (decoding_.least_side > 0 && scale < 8 &&
           divided(std::min(region_.height, region_.width), 2 * scale) >= decoding_.least_side) {
      scale *= 2;
    }
    jpeg_.scale_num = 1;
    jpeg_.scale_denom = static_cast<unsigned>(scale);
    region_ = {.top = region_.top / scale,
               .left = region_.left / scale,
               .height = divided(region_.height, scale),
               .width = divided(region_.width, scale)};
  }

  void decode(float* pixels) {
    jpeg_start_decompress(&jpeg_);
    const int64_t width = jpeg_.output_width;
    // Upsampling looks at the neighbours of a pixel: one on the right, and one on the left, which is there already
    // where the window does not begin with a column of MCUs. Of very few columns it does not (see JpegReader).
    const int64_t least_width = int64_t{2} * jpeg_.max_h_samp_factor * jpeg_.min_DCT_scaled_size;
    const int64_t begin = std::max<int64_t>(std::min(region_.left - 1, width - least_width), 0);
    const int64_t end = std::min(std::max(region_.left + region_.width + 1, begin + least_width), width);
    auto left = static_cast<JDIMENSION>(begin);
    if (auto count = static_cast<JDIMENSION>(end - begin); count < jpeg_.output_width) {
      jpeg_crop_scanline(&jpeg_, &left, &count);
    }
    if (region_.top > 0) jpeg_skip_scanlines(&jpeg_, static_cast<JDIMENSION>(region_.top));
    // Two neighbouring rows take turns in these.
    const size_t row_bytes = jpeg_.output_width * kChannels;
    decoded_.resize(2 * row_bytes);
    sums_.resize(static_cast<size_t>(region_.width) * kChannels + 1);
    const size_t offset = (static_cast<size_t>(region_.left) - left) * kChannels;
    const auto row_at = [&](uint32_t row) { return decoded_.data() + row % 2 * row_bytes; };
    uint32_t num_read = 0;
    for (size_t y = 0; y < kSide; ++y, pixels += kSide * kChannels) {
      for (; num_read <= rows_.second[y]; ++num_read) {
        JSAMPROW row = row_at(num_read);
        jpeg_read_scanlines(&jpeg_, &row, 1);
      }
      add_rows(row_at(rows_.first[y]) + offset, row_at(rows_.second[y]) + offset, rows_.of_first[y], rows_.of_second[y],
               static_cast<size_t>(region_.width) * kChannels, sums_.data());
      make_row(sums_.data(), columns_, means_.data(), deviations_.data(), resized_.data(), pixels);
    }
  }

  const std::shared_ptr<const ExampleParser> parser_;
  const DecodeImageOptions decoding_;
  const CropWindow window_;
  BufferPool pool_;
  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  LibraryCalls calls_;
  ImageRegion region_;  // of the picture as it is decoded
  BilinearAxis rows_;
  BilinearAxis columns_;
  std::vector<uint8_t> decoded_;
  std::vector<float> sums_;
  std::vector<float> resized_;
  std::vector<float> means_;
  std::vector<float> deviations_;
};

}  // namespace

RowFilling jpeg_filling(uint64_t seed, bool scaled) {
  const auto parser = std::make_shared<const ExampleParser>(jpeg_features());
  std::vector<FeatureSpec> features = parser->columns();
  features[0] = {features[0].name, DType::kFloat32, {kPictureSide, kPictureSide, kChannels}};
  return {std::make_shared<const Schema>(std::move(features)),
          [parser, seed, scaled] { return std::make_unique<JpegFiller>(parser, seed, scaled); }};
}

}  // namespace millrace
