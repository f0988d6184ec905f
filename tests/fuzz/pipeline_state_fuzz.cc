#include "tests/fuzz/pipeline_state_fuzz.h"

#include <optional>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/formats/error.h"
#include "millrace/pipeline/pipeline_state.h"
#include "tests/fuzz/fuzz_error.h"

namespace millrace::test {
namespace {

std::optional<PipelineState> parse(std::string_view bytes) {
  try {
    return PipelineState::parse(bytes);
  } catch (const ErrorException& exception) {
    require(exception.error().code == ErrorCode::kState);
    return std::nullopt;
  }
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

// The envelope of pipeline_state.proto with a right digest, which no fuzzer would guess: version, digest, content.
std::string in_envelope(std::string_view content) {
  const uint64_t digest = XXH3_64bits(content.data(), content.size());
  std::string bytes("\x08\x02\x11");
  bytes.append(reinterpret_cast<const char*>(&digest), sizeof(digest));
  return bytes + "\x1a" + varint(content.size()) + std::string(content);
}

}  // namespace

void fuzz_pipeline_state(std::string_view bytes) {
  for (const std::string& some : {std::string(bytes), in_envelope(bytes)}) {
    const std::optional<PipelineState> state = parse(some);
    if (!state) continue;
    const std::string written = state->serialize();
    const std::optional<PipelineState> again = parse(written);
    require(again && again->serialize() == written && again->num_delivered() == state->num_delivered());
  }
}

}  // namespace millrace::test
