#include "millrace/formats/tfrecord/recognition.h"

#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/tfrecord/crc.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(std::string message) { throw ErrorException(ErrorCode::kCompression, std::move(message)); }

}  // namespace

bool begins_like_records(std::string_view first_bytes) {
  if (first_bytes.size() < kRecognitionBytes) return false;
  uint64_t length = 0;
  uint32_t crc = 0;
  std::memcpy(&length, first_bytes.data(), sizeof(length));
  std::memcpy(&crc, first_bytes.data() + sizeof(length), sizeof(crc));
  return masked_crc32c_of_length(length) == crc;
}

Compression recognize_compression(std::string_view first_bytes, std::optional<Compression> declared) {
  const bool like_records = begins_like_records(first_bytes);
  const ContentGuess guess = guess_compression(first_bytes);
  if (!declared) {
    if (like_records) return Compression::kNone;
    if (guess.compression) return *guess.compression;
    refuse(fmt::format("the content is {}; shards are uncompressed, ZLIB, GZIP or ZSTD", guess.description));
  }
  if (*declared == Compression::kNone) {
    if (like_records || guess.compression == Compression::kNone) return *declared;
    refuse(fmt::format("declared uncompressed, the content is {}", guess.description));
  }
  if (guess.compression == *declared) return *declared;
  if (like_records) {
    refuse(fmt::format("declared {}, the content is an uncompressed TFRecord file", to_string(*declared)));
  }
  if (guess.compression == Compression::kNone) return *declared;  // the inflater says what is wrong
  refuse(fmt::format("declared {}, the content is {}", to_string(*declared), guess.description));
}

}  // namespace millrace
