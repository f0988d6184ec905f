#include "examples/super_resolution/rgb_image.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "millrace/formats/columnar/buffer.h"
#include "millrace/formats/error.h"
#include "millrace/formats/image/decoder.h"
#include "millrace/formats/storage/folder_names.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/text/lower_case.h"
#include "millrace/ops/images/resize_kernel.h"

namespace millrace {
namespace {

bool has_name_of_a_picture(const std::string& name) {
  const std::string ending = lower_case(std::filesystem::path(name).extension().string());
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

}  // namespace

std::vector<std::string> listed_pictures(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  std::set<std::string> seen;
  const auto add = [&](const std::string& file) {
    if (seen.insert(file).second) files.push_back(file);
  };
  for (const std::string& path : paths) {
    std::error_code not_there;  // says who opens it
    if (!std::filesystem::is_directory(path, not_there)) {
      add(path);
      continue;
    }
    for (const std::string& name : names_in(path)) {
      if (has_name_of_a_picture(name)) add((std::filesystem::path(path) / name).string());
    }
  }
  return files;
}

std::string picture_name(const std::string& path) { return std::filesystem::path(path).stem().string(); }

RgbImage<uint8_t> decode_picture(const std::string& bytes, const std::string& path) {
  try {
    ImageDecoder decoder;
    decoder.start(bytes, {.channels = kColours, .background = {{255, 255, 255}}, .applies_orientation = true});
    RgbImage<uint8_t> image{.height = decoder.height(), .width = decoder.width()};
    image.pixels.resize(static_cast<size_t>(decoder.num_bytes()));
    decoder.decode(decoder.whole(), image.pixels);
    return image;
  } catch (const ErrorException& exception) {
    Error error = exception.error();
    error.shard = path;
    throw ErrorException(std::move(error));
  }
}

RgbImage<uint8_t> read_picture(const std::string& path) {
  return decode_picture(read_whole_anywhere(path, "picture"), path);
}

RgbImage<float> to_floats(const RgbImage<uint8_t>& image) {
  RgbImage<float> result{.height = image.height, .width = image.width};
  result.pixels.resize(image.pixels.size());
  std::ranges::transform(image.pixels, result.pixels.begin(),
                         [](uint8_t value) { return static_cast<float>(value) / 255; });
  return result;
}

void round_to_bytes(std::span<const float> values, std::span<uint8_t> bytes) {
  std::ranges::transform(values, bytes.begin(), [](float value) {
    return static_cast<uint8_t>(std::lrint(std::clamp(value * 255, 0.0F, 255.0F)));
  });
}

RgbImage<uint8_t> to_bytes(const RgbImage<float>& image) {
  RgbImage<uint8_t> result{.height = image.height, .width = image.width};
  result.pixels.resize(image.pixels.size());
  round_to_bytes(image.pixels, result.pixels);
  return result;
}

template <typename T>
RgbImage<T> cropped(const RgbImage<T>& image, const ImageRegion& region) {
  RgbImage<T> result{.height = region.height, .width = region.width};
  result.pixels.reserve(static_cast<size_t>(region.height) * result.row_size());
  for (int64_t row = region.top; row < region.top + region.height; ++row) {
    const auto begin = image.pixels.begin() + (row * image.width + region.left) * kColours;
    result.pixels.insert(result.pixels.end(), begin, begin + region.width * kColours);
  }
  return result;
}

template RgbImage<uint8_t> cropped(const RgbImage<uint8_t>&, const ImageRegion&);
template RgbImage<float> cropped(const RgbImage<float>&, const ImageRegion&);

RgbImage<float> bicubic(const RgbImage<float>& image, int64_t height, int64_t width) {
  RgbImage<float> result{.height = height, .width = width};
  result.pixels.resize(static_cast<size_t>(height * width * kColours));
  BufferPool pool;
  ResizeKernel kernel(pool, ResizeMethod::kBicubic, /*antialias=*/true, image.height, image.width, height, width);
  kernel.resize(image.pixels.data(), kColours, result.pixels.data());
  for (float& value : result.pixels) value = std::clamp(value, 0.0F, 1.0F);
  return result;
}

RgbImage<uint8_t> shrunk(const RgbImage<uint8_t>& image, int64_t factor) {
  const int64_t height = image.height / factor;
  const int64_t width = image.width / factor;
  const ImageRegion whole_blocks{.height = height * factor, .width = width * factor};
  if (factor == 1 || height == 0 || width == 0) return cropped(image, whole_blocks);
  return to_bytes(bicubic(to_floats(cropped(image, whole_blocks)), height, width));
}

}  // namespace millrace
