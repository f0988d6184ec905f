// The models of maps on images: one value after the other, in double.

#include <algorithm>
#include <cmath>
#include <utility>

#include "millrace/formats/image/decoder.h"
#include "tests/contract/model.h"

namespace millrace::test {
namespace {

// Values of an image, by row, column and channel.
struct ModelImage {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::vector<double> values;

  double at(int64_t y, int64_t x, int64_t c) const {
    return values[static_cast<size_t>((y * width + x) * channels + c)];
  }
};

// `gives` the value of the new image at a row, a column and a channel.
template <typename Gives>
ModelImage new_image(int64_t height, int64_t width, int64_t channels, const Gives& gives) {
  ModelImage image{height, width, channels, {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) image.values.push_back(gives(y, x, c));
    }
  }
  return image;
}

// Changes the images of an element, one after the other; `dtype`: of what comes out.
void change_images(ModelElement& element, size_t column, DType dtype,
                   const std::function<ModelImage(const ModelImage&, size_t row)>& change) {
  ModelValue& value = element.values[column];
  const bool in_batches = value.shape.size() == 4;
  if (!in_batches && element.rows != 1) return element.fail(ErrorCode::kWrongShape);
  const int64_t rows = in_batches ? value.shape[0] : 1;
  const size_t rank = value.shape.size();
  ModelImage image{value.shape[rank - 3], value.shape[rank - 2], value.shape[rank - 1], {}};
  std::vector<double> all(value.integers.begin(), value.integers.end());
  all.insert(all.end(), value.floats.begin(), value.floats.end());
  value.integers.clear();
  value.floats.clear();
  value.dtype = dtype;
  const size_t size = rows == 0 ? 0 : all.size() / static_cast<size_t>(rows);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * size);
    image.values.assign(begin, begin + static_cast<std::ptrdiff_t>(size));
    const ModelImage changed = change(image, row);
    value.shape[rank - 3] = changed.height;
    value.shape[rank - 2] = changed.width;
    value.shape[rank - 1] = changed.channels;
    for (const double one : changed.values) {
      if (dtype == DType::kFloat32) {
        value.floats.push_back(static_cast<float>(one));
      } else {
        value.integers.push_back(static_cast<int64_t>(one));
      }
    }
  }
}

// Keys' cubic kernel at a distance.
double cubic(double x) {
  if (x >= 2) return 0;
  return x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2;
}

// The weight of a pixel for a new one, against the others'; that is exact where the sizes are powers of two of each
// other.
double weight_of(const ResizeOptions& options, int64_t pixel, int64_t from, int64_t at, int64_t to) {
  const ResizeMethod method = options.method;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const auto p = static_cast<double>(pixel);
  const auto a = static_cast<double>(at);
  if (method == ResizeMethod::kNearest) return std::floor((a + 0.5) * scale) == p ? 1 : 0;
  if (method == ResizeMethod::kArea) {
    return std::max(0.0, std::min(p + 1, (a + 1) * scale) - std::max(p, a * scale)) / scale;
  }
  if (method == ResizeMethod::kBicubic || options.antialias) {
    // Nothing lies beyond the border.
    const double distance = std::abs((a + 0.5) * scale - p - 0.5) / (options.antialias ? std::max(1.0, scale) : 1.0);
    return method == ResizeMethod::kBicubic ? cubic(distance) : std::max(0.0, 1 - distance);
  }
  // Of what lies beyond the border the outermost pixel has the weight.
  const double place = std::clamp((a + 0.5) * scale - 0.5, 0.0, static_cast<double>(from - 1));
  return std::max(0.0, 1 - std::abs(place - p));
}

// A new pixel of an axis, of the `values` of its pixels: a weighted sum from the first on, in floats, of which some
// weights are not exact.
template <typename Values>
double resized(const ResizeOptions& options, int64_t from, int64_t at, int64_t to, const Values& values) {
  double all = 0;
  for (int64_t pixel = 0; pixel < from; ++pixel) all += weight_of(options, pixel, from, at, to);
  float sum = 0;
  for (int64_t pixel = 0; pixel < from; ++pixel) {
    const auto weight = static_cast<float>(weight_of(options, pixel, from, at, to) / all);
    const float product = weight * static_cast<float>(values(pixel));
    sum += product;
  }
  return sum;
}

}  // namespace

Model model_of_resize(Model input, size_t column, ResizeOptions options) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t) {
    const bool keeps = options.method == ResizeMethod::kNearest || options.keep_dtype;
    const DType dtype = keeps ? element.values[column].dtype : DType::kFloat32;
    change_images(element, column, dtype, [&](const ModelImage& image, size_t) {
      // Images are square.
      const int64_t side = options.shorter_side.value_or(options.longer_side.value_or(0));
      const int64_t height = options.height.value_or(side);
      const int64_t width = options.width.value_or(side);
      const ModelImage rows = new_image(height, image.width, image.channels, [&](int64_t y, int64_t x, int64_t c) {
        return resized(options, image.height, y, height, [&](int64_t v) { return image.at(v, x, c); });
      });
      return new_image(height, width, image.channels, [&](int64_t y, int64_t x, int64_t c) {
        const double sum = resized(options, image.width, x, width, [&](int64_t u) { return rows.at(y, u, c); });
        if (dtype == DType::kFloat32) return sum;
        const double rounded = std::nearbyint(sum);  // halves to even
        return dtype == DType::kUint8 ? std::clamp(rounded, 0.0, 255.0) : rounded;
      });
    });
  });
}

Model model_of_crop(Model input, size_t column, CropOptions options, uint64_t occurrence) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t ordinal, const Iteration& iteration) {
    const CounterRng rng(options.seed, operator_id("crop", occurrence), iteration);
    const CropWindow window(options.window, "crop");
    change_images(element, column, element.values[column].dtype, [&](const ModelImage& image, size_t row) {
      const ImageRegion kept =
          window.window(image.height, image.width, rng, static_cast<uint64_t>(ordinal) + static_cast<uint64_t>(row));
      return new_image(kept.height, kept.width, image.channels,
                       [&](int64_t y, int64_t x, int64_t c) { return image.at(kept.top + y, kept.left + x, c); });
    });
  });
}

// Stored pixels are the decoder's, small JPEGs' too; which of them are kept, where they come and what is laid below
// them is said here.
Model model_of_decode_image(Model input, DecodeImageOptions options, uint64_t occurrence) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t ordinal, const Iteration& iteration) {
    const std::string encoded = element.values[0].bytes[0];
    if (encoded == "no picture") return element.fail(ErrorCode::kParse);
    ImageDecoder decoder;
    const ImageInfo info =
        decoder.start(encoded, {.channels = options.background ? 4 : static_cast<int>(options.channels)});
    const int lies = options.upright ? info.orientation : 1;
    Shape size{info.height, info.width};
    if (lies >= 5) std::swap(size[0], size[1]);
    if (options.size && *options.size != size) return element.fail(ErrorCode::kWrongShape);
    ImageRegion kept{0, 0, size[0], size[1]};
    if (options.crop) {
      const CropWindow window(*options.crop, "decode_image");
      if (!window.why_not(size[0], size[1]).empty()) return element.fail(ErrorCode::kWrongShape);
      const CounterRng rng(options.seed, operator_id("decode_image", occurrence), iteration);
      kept = window.window(size[0], size[1], rng, static_cast<uint64_t>(ordinal));
    }
    int scale = 1;
    const auto scaled = [&scale](int64_t side) { return (side + scale - 1) / scale; };
    if (info.format == ImageFormat::kJpeg && options.least_side > 0) {
      while (scale <= 8 && scaled(std::min(kept.height, kept.width)) >= options.least_side) scale *= 2;
      scale = std::max(1, scale / 2);
    }
    decoder.set_scale_denominator(scale);
    std::vector<uint8_t> stored(static_cast<size_t>(decoder.num_bytes()));
    decoder.decode(decoder.whole(), stored);
    const int64_t channels = options.background ? 3 : decoder.channels();
    const ModelImage image =
        new_image(scaled(kept.height), scaled(kept.width), channels, [&](int64_t y, int64_t x, int64_t c) {
          // What EXIF says of the stored first row and column: at the bottom, at the right, and which of them is which.
          int64_t row = kept.top / scale + y;
          int64_t column = kept.left / scale + x;
          if (lies == 3 || lies == 4 || lies == 7 || lies == 8) row = scaled(size[0]) - 1 - row;
          if (lies == 2 || lies == 3 || lies == 6 || lies == 7) column = scaled(size[1]) - 1 - column;
          if (lies >= 5) std::swap(row, column);
          const uint8_t* const pixel =
              &stored[static_cast<size_t>((row * decoder.width() + column) * decoder.channels())];
          if (!options.background) return static_cast<double>(pixel[c]);
          const double opaque = pixel[3] / 255.0;
          const auto below = static_cast<double>((*options.background)[static_cast<size_t>(c)]);
          return std::round(opaque * pixel[c] + (1 - opaque) * below);
        });
    element.values[0] =
        integers({image.height, image.width, channels}, {image.values.begin(), image.values.end()}, DType::kUint8);
  });
}

Model model_of_pad(Model input, size_t column, PadOptions options) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t) {
    change_images(element, column, element.values[column].dtype, [&](const ModelImage& image, size_t) {
      const bool in_the_centre = options.kind == PadKind::kCentre;
      const int64_t top = in_the_centre ? (options.height - image.height) / 2 : 0;
      const int64_t left = in_the_centre ? (options.width - image.width) / 2 : 0;
      return new_image(options.height, options.width, image.channels, [&](int64_t y, int64_t x, int64_t c) {
        const bool is_inside = y >= top && y < top + image.height && x >= left && x < left + image.width;
        return is_inside ? image.at(y - top, x - left, c) : options.value;
      });
    });
  });
}

Model model_of_normalize(Model input, size_t column, NormalizeOptions options) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t) {
    change_images(element, column, DType::kFloat32, [&](const ModelImage& image, size_t) {
      const auto value_at = [&](int64_t y, int64_t x, int64_t c) {
        const auto channel = static_cast<size_t>(c);
        const auto mean = static_cast<float>(options.mean[channel % options.mean.size()]);
        const auto deviation =
            static_cast<float>(options.standard_deviation[channel % options.standard_deviation.size()]);
        return static_cast<double>((static_cast<float>(image.at(y, x, c)) - mean) / deviation);
      };
      if (!options.channels_first) return new_image(image.height, image.width, image.channels, value_at);
      return new_image(image.channels, image.height, image.width,
                       [&](int64_t c, int64_t y, int64_t x) { return value_at(y, x, c); });
    });
  });
}

}  // namespace millrace::test
