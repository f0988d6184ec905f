// The models of maps on images: one value after the other, in double.

#include <algorithm>
#include <cmath>

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

// The weight of a pixel for a new one; that is exact where the sizes are powers of two of each other.
double weight_of(ResizeMethod method, int64_t pixel, int64_t from, int64_t at, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const auto p = static_cast<double>(pixel);
  const auto a = static_cast<double>(at);
  if (method == ResizeMethod::kNearest) return std::floor((a + 0.5) * scale) == p ? 1 : 0;
  if (method == ResizeMethod::kArea) {
    return std::max(0.0, std::min(p + 1, (a + 1) * scale) - std::max(p, a * scale)) / scale;
  }
  // Of what lies beyond the border the outermost pixel has the weight.
  const double place = std::clamp((a + 0.5) * scale - 0.5, 0.0, static_cast<double>(from - 1));
  return std::max(0.0, 1 - std::abs(place - p));
}

}  // namespace

Model model_of_resize(Model input, size_t column, ResizeOptions options) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t) {
    const bool keeps = options.method == ResizeMethod::kNearest;
    const DType dtype = keeps ? element.values[column].dtype : DType::kFloat32;
    change_images(element, column, dtype, [&](const ModelImage& image, size_t) {
      const int64_t height = options.shorter_side.value_or(options.height.value_or(0));
      const int64_t width = options.shorter_side.value_or(options.width.value_or(0));
      return new_image(height, width, image.channels, [&](int64_t y, int64_t x, int64_t c) {
        double sum = 0;
        for (int64_t v = 0; v < image.height; ++v) {
          for (int64_t u = 0; u < image.width; ++u) {
            sum += weight_of(options.method, v, image.height, y, height) *
                   weight_of(options.method, u, image.width, x, width) * image.at(v, u, c);
          }
        }
        return sum;
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

// Of pictures that are whole pixels already.
Model model_of_decode_image(Model input, DecodeImageOptions options, uint64_t occurrence) {
  return model_of_map(std::move(input), [=](ModelElement& element, int64_t ordinal, const Iteration& iteration) {
    const Shape shape = element.values[0].shape;
    if (options.size && *options.size != Shape{shape[0], shape[1]}) return element.fail(ErrorCode::kWrongShape);
    if (!options.crop) return;
    const CropWindow window(*options.crop, "decode_image");
    if (!window.why_not(shape[0], shape[1]).empty()) return element.fail(ErrorCode::kWrongShape);
    const CounterRng rng(options.seed, operator_id("decode_image", occurrence), iteration);
    const ImageRegion kept = window.window(shape[0], shape[1], rng, static_cast<uint64_t>(ordinal));
    std::vector<int64_t> pixels;
    for (int64_t y = kept.top; y < kept.top + kept.height; ++y) {
      const auto row = element.values[0].integers.begin() + (y * shape[1] + kept.left) * shape[2];
      pixels.insert(pixels.end(), row, row + kept.width * shape[2]);
    }
    element.values[0] = integers({kept.height, kept.width, shape[2]}, std::move(pixels), DType::kUint8);
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
