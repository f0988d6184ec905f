#include "millrace/formats/tfrecord/recognition.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "millrace/formats/error.h"
#include "millrace/formats/text/byte_order_mark.h"
#include "millrace/formats/tfrecord/crc.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

[[noreturn]] void refuse(std::string message) { throw ErrorException(ErrorCode::kCompression, std::move(message)); }

using std::string_view_literals::operator""sv;

struct Magic {
  std::string_view bytes;
  std::string_view name;
};
// What lies in folders of data or comes in the place of a file that was asked for.
constexpr std::array kFormats = {
    Magic{"version https://git-lfs"sv, "a Git LFS pointer (`git lfs pull` fetches the file itself)"},
    Magic{"<!DOCTYPE"sv, "HTML"},
    Magic{"<!doctype"sv, "HTML"},
    Magic{"<html"sv, "HTML"},
    Magic{"<HTML"sv, "HTML"},
    Magic{"<?xml"sv, "XML"},
    Magic{"PK\x03\x04"sv, "a zip archive"},
    Magic{"PAR1"sv, "Parquet"},
    Magic{"ARROW1"sv, "Arrow"},
    Magic{"ORC"sv, "ORC"},
    Magic{"Obj\x01"sv, "Avro"},
    Magic{"SEQ\x06"sv, "a Hadoop sequence file"},
    Magic{"crc\0"sv, "the checksums that Hadoop writes beside a file (.NAME.crc)"},
    Magic{"\x0a\x23\xd7\xce"sv, "MXNet RecordIO"},
    Magic{"\x89HDF"sv, "HDF5"},
    Magic{"\x93NUMPY"sv, "NumPy"},
    Magic{"\x89PNG"sv, "PNG"},
    Magic{"\xff\xd8\xff"sv, "JPEG"},
    Magic{"SQLite format 3"sv, "SQLite"},
};
constexpr size_t kTarMagicOffset = 257;
constexpr size_t kFewestOfText = 4;
constexpr size_t kMostShown = 64;

// Of UTF-8, whose last character may be cut.
bool is_text(std::string_view bytes) {
  constexpr size_t kMostOfACharacter = 4;
  const bool has_no_controls = std::ranges::all_of(
      bytes, [](char c) { return static_cast<unsigned char>(c) >= ' ' || c == '\t' || c == '\n' || c == '\r'; });
  return bytes.size() >= kFewestOfText && has_no_controls &&
         valid_utf8_prefix(bytes) + kMostOfACharacter > bytes.size();
}

// Empty where none is known.
std::string_view format_of(std::string_view bytes) {
  const auto* found =
      std::ranges::find_if(kFormats, [&](const Magic& format) { return bytes.starts_with(format.bytes); });
  return found == kFormats.end() ? std::string_view() : found->name;
}

}  // namespace

std::string describe_other_format(std::string_view first_bytes) {
  const bool is_tar = first_bytes.size() > kTarMagicOffset && first_bytes.substr(kTarMagicOffset).starts_with("ustar");
  std::string_view format = is_tar ? "a tar archive" : format_of(first_bytes);
  if (first_bytes.starts_with(kUtf8Mark)) first_bytes.remove_prefix(kUtf8Mark.size());
  first_bytes.remove_prefix(std::min(first_bytes.find_first_not_of(" \t\r\n"), first_bytes.size()));
  if (format.empty()) format = format_of(first_bytes);
  if (!format.empty()) return fmt::format("; the file begins like {}, and is no TFRecord file", format);
  const std::string_view shown = first_bytes.substr(0, kMostShown);
  if (!is_text(shown)) return "";
  const std::string_view line = shown.substr(0, std::min(shown.find_first_of("\r\n\t"), valid_utf8_prefix(shown)));
  return fmt::format("; the file begins with the text '{}', and is no TFRecord file", line);
}

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
