#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tokenizer/json_node.h"

namespace millrace {

/// Makes text of tokens. Immutable; any thread.
///
/// To add one: its own pair of files in this folder, named as its `type`, and a line in `read_decoder`.
class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual std::string decode(std::span<const std::string_view> tokens) const = 0;
};

/// The decoder that `node` describes. Throws `kParse` with its place for one that we do not have.
[[nodiscard]] std::unique_ptr<const Decoder> read_decoder(const JsonNode& node);

/// For files without one: the tokens with spaces between them.
[[nodiscard]] std::unique_ptr<const Decoder> plain_decoder();

}  // namespace millrace
