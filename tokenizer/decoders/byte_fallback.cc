#include "millrace/tokenizer/decoders/byte_fallback.h"

#include <charconv>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

std::optional<char> byte_of_token(const std::string& token) {
  constexpr size_t kSize = 6;
  if (token.size() != kSize || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const char* end = token.data() + kSize - 1;
  // The package's reader of numbers takes a sign.
  const auto result = std::from_chars(token.data() + (token[3] == '+' ? 4 : 3), end, byte, 16);
  return result.ec == std::errc() && result.ptr == end ? std::optional(static_cast<char>(byte)) : std::nullopt;
}

}  // namespace

void ByteFallbackDecoder::apply(std::vector<std::string>& pieces) const {
  std::vector<std::string> decoded;
  std::string bytes;
  const auto take_bytes = [&] {
    if (bytes.empty()) return;
    if (is_valid_utf8(bytes)) {
      decoded.push_back(bytes);
    } else {
      decoded.insert(decoded.end(), bytes.size(), "\ufffd");
    }
    bytes.clear();
  };
  for (std::string& piece : pieces) {
    if (const std::optional<char> byte = byte_of_token(piece)) {
      bytes.push_back(*byte);
      continue;
    }
    take_bytes();
    decoded.push_back(std::move(piece));
  }
  take_bytes();
  pieces = std::move(decoded);
}

nlohmann::ordered_json ByteFallbackDecoder::to_json() const { return {{"type", "ByteFallback"}}; }

}  // namespace millrace
