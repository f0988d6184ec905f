#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "millrace/tokenizer/json_node.h"

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

/// The texts that a special token in front of them becomes part of.
struct JoinedSpecialTokens {
  bool before_first_text = false;
  bool before_second_text = false;
};

/// Takes the white space at the ends of tokens out of their offsets.
struct OffsetTrimming {
  /// Whether the space in front of a text's first token was added, and is not in its offsets anyway.
  bool add_prefix_space = true;
  /// The texts in front of whose first token is a special one by then, if they are added, which takes its place as the
  /// first: the space is then known only by offsets that begin with the text.
  JoinedSpecialTokens joined;
};

/// Says what goes around the tokens of one text and of a pair, and what their offsets are. Immutable; any thread.
///
/// To add one: its own pair of files in this folder, named as its `type`, and a line in `read_post_processor`.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  /// What an encoding is made of. Null: the texts alone, those of the second with type 1.
  virtual const std::vector<TemplatePiece>* single() const { return nullptr; }
  virtual const std::vector<TemplatePiece>* pair() const { return nullptr; }
  /// Which texts special tokens become part of, so that those that follow take them for the texts' own.
  virtual JoinedSpecialTokens joins_special_tokens() const { return {}; }
  /// One after the other.
  virtual std::vector<OffsetTrimming> trimmings() const { return {}; }
  /// What `read_post_processor` reads.
  virtual nlohmann::ordered_json to_json() const = 0;
};

/// The post-processor that `node` describes. Throws `kParse` with its place for one that we do not have.
[[nodiscard]] std::unique_ptr<const PostProcessor> read_post_processor(const JsonNode& node);

/// Reads `[token, id]`.
TemplatePiece read_special_token(const JsonNode& node);
nlohmann::ordered_json special_token_json(const TemplatePiece& piece);

/// The pieces of a post-processor that has none, or of a file without one.
const std::vector<TemplatePiece>& plain_single();
const std::vector<TemplatePiece>& plain_pair();

}  // namespace millrace
