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

/// Takes the white space at the ends of tokens out of their offsets.
struct OffsetTrimming {
  /// Whether the space in front of a text's first token was added, and is not in its offsets anyway.
  bool add_prefix_space = true;
  /// Whether a special token, if they are added, is in front of that one by then and takes its place as the first:
  /// the space is then known only by offsets that begin with the text.
  bool after_special_token = false;
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
  /// Whether special tokens become part of the texts, so that those that follow take them for the texts' own.
  virtual bool joins_special_tokens() const { return false; }
  /// One after the other.
  virtual std::vector<OffsetTrimming> trimmings() const { return {}; }
  /// What `read_post_processor` reads.
  virtual nlohmann::ordered_json to_json() const = 0;
};

/// The post-processor that `node` describes. Throws `kParse` with its place for one that we do not have.
[[nodiscard]] std::unique_ptr<const PostProcessor> read_post_processor(const JsonNode& node);

/// The pieces of a post-processor that has none, or of a file without one.
const std::vector<TemplatePiece>& plain_single();
const std::vector<TemplatePiece>& plain_pair();

}  // namespace millrace
