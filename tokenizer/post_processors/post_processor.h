#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tokenizer/json_node.h"

namespace millrace {

/// A place in the final encoding: a special token, or where a text's tokens go.
struct TemplatePiece {
  enum class Kind {
    kSpecialToken,
    kFirstText,
    kSecondText,
  };
  Kind kind = Kind::kFirstText;
  int32_t type_id = 0;
  int32_t id = 0;     ///< of a special token
  std::string token;  ///< of a special token
};

/// Says what goes around the tokens of one text and of a pair. Immutable; any thread.
///
/// To add one: its own pair of files in this folder, named as its `type`, and a line in `read_post_processor`.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual const std::vector<TemplatePiece>& single() const = 0;
  virtual const std::vector<TemplatePiece>& pair() const = 0;
};

/// The post-processor that `node` describes. Throws `kParse` with its place for one that we do not have.
[[nodiscard]] std::unique_ptr<const PostProcessor> read_post_processor(const JsonNode& node);

/// For files without one: the texts alone, those of the second with type 1.
[[nodiscard]] std::unique_ptr<const PostProcessor> plain_post_processor();

}  // namespace millrace
