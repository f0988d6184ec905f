#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "millrace/tokenizer/json_node.h"

namespace millrace {

/// Makes of the tokens of a vocabulary the pieces of a text. Immutable; any thread.
///
/// To add one: its own pair of files in this folder, named as its `type`, and a line in `read_decoder`.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Changes the pieces, which together are the text after the last decoder.
  virtual void apply(std::vector<std::string>& pieces) const = 0;
  /// What `read_decoder` reads.
  virtual nlohmann::ordered_json to_json() const = 0;
};

/// The decoder that `node` describes. Throws `kParse` with its place for one that we do not have.
[[nodiscard]] std::unique_ptr<const Decoder> read_decoder(const JsonNode& node);

}  // namespace millrace
