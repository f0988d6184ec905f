#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/formats/error.h"
#include "millrace/formats/image/decoder.h"
#include "tests/support/encoded_pictures.h"

namespace millrace::test {

/// What a decoder makes of a region that was started before.
inline std::vector<uint8_t> decoded_region(ImageDecoder& decoder, const ImageRegion& region) {
  std::vector<uint8_t> pixels(static_cast<size_t>(region.height * region.width * decoder.channels()), 0xaa);
  decoder.decode(region, pixels);
  return pixels;
}

/// The whole picture.
inline Picture decoded(std::string_view bytes, const DecodeOptions& options = {}) {
  ImageDecoder decoder;
  decoder.start(bytes, options);
  return {static_cast<int>(decoder.height()), static_cast<int>(decoder.width()), decoder.channels(),
          decoded_region(decoder, decoder.whole())};
}

/// The error of decoding the whole picture, or of its rows before `bottom`; nothing where there is none.
inline std::optional<Error> decode_error(std::string_view bytes, const DecodeOptions& options = {},
                                         int64_t bottom = INT64_MAX) {
  try {
    ImageDecoder decoder;
    decoder.start(bytes, options);
    decoded_region(decoder, {0, 0, std::min(bottom, decoder.height()), decoder.width()});
    return std::nullopt;
  } catch (const ErrorException& exception) {
    return exception.error();
  }
}

/// The error as text, `none` where there is none.
inline std::string decode_refusal(std::string_view bytes, const DecodeOptions& options = {}) {
  const std::optional<Error> error = decode_error(bytes, options);
  return error ? error->to_string() : "none";
}

}  // namespace millrace::test
