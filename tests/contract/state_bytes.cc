#include "tests/contract/state_bytes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace::test {

state::State content_of_state(const std::string& bytes) {
  state::Envelope envelope;
  state::State content;
  if (!envelope.ParseFromString(bytes) || !content.ParseFromString(envelope.content())) __builtin_trap();
  return content;
}

std::string state_with_content(const state::State& content) {
  state::Envelope envelope;
  envelope.set_version(2);
  envelope.set_content(content.SerializeAsString());
  envelope.set_digest(XXH3_64bits(envelope.content().data(), envelope.content().size()));
  return envelope.SerializeAsString();
}

}  // namespace millrace::test
