#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <stdexcept>
#include <unordered_set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "formats/storage/atomic_file.h"
#include "formats/storage/whole_file.h"
#include "formats/utf8.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/decoders/decoder.h"
#include "tokenizer/json_node.h"
#include "tokenizer/models/model.h"
#include "tokenizer/normalizers/normalizer.h"
#include "tokenizer/post_processors/post_processor.h"
#include "tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace millrace {
namespace {

// A U+2581 is three times as long as the space it stands for, and positions are 32 bits.
constexpr size_t kMaxTextBytes = size_t{1} << 30;

// What encoding one text needs. Each thread keeps one, so that steady work allocates nothing.
struct WorkSpace {
  WordedText words;
  WordedText spare;
  AlignedText normalized;
  std::vector<ModelToken> tokens;
};

WorkSpace& work_space() {
  static thread_local WorkSpace space;
  return space;
}

void require_text(std::string_view text) {
  if (text.size() >= kMaxTextBytes) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("a text of {} bytes, must be below {}", text.size(), kMaxTextBytes));
  }
  const size_t valid = valid_utf8_prefix(text);
  if (valid != text.size()) {
    throw ErrorException(
        Error{.code = ErrorCode::kParse,
              .message = fmt::format("the text is not UTF-8 (byte 0x{:02x})", static_cast<uint8_t>(text[valid])),
              .offset = static_cast<int64_t>(valid)});
  }
}

std::vector<AddedToken> read_added_tokens(const JsonNode& list) {
  std::vector<AddedToken> tokens;
  for (size_t i = 0; i < list.num_elements(); ++i) {
    const JsonNode node = list.element(i);
    node.require_members_among({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    const auto flag = [&](std::string_view name) {
      const auto member = node.find(name);
      return member && member->boolean();
    };
    if (flag("single_word")) node.member("single_word").fail("added tokens that match whole words are not supported");
    tokens.push_back({.id = node.member("id").id(),
                      .content = node.member("content").string(),
                      .lstrip = flag("lstrip"),
                      .rstrip = flag("rstrip"),
                      .normalized = flag("normalized"),
                      .special = flag("special")});
    if (tokens.back().content.empty()) node.member("content").fail("an added token of no characters");
  }
  return tokens;
}

// The model keeps the ids of its own tokens; others follow behind them without gaps.
std::vector<std::string> tokens_behind_model(const JsonNode& list, const std::vector<AddedToken>& tokens,
                                             const TokenModel& model) {
  std::vector<std::string> behind;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const AddedToken& token = tokens[i];
    const std::optional<int32_t> in_model = model.id_of(token.content);
    const int32_t expected = in_model ? *in_model : model.size() + static_cast<int32_t>(behind.size());
    if (token.id != expected) {
      list.element(i).member("id").fail(fmt::format(
          "is {}, but '{}' {} {}", token.id, token.content,
          in_model ? "has in the model's vocabulary the id" : "is the next behind the model's vocabulary and must be",
          expected));
    }
    if (!in_model) behind.push_back(token.content);
  }
  return behind;
}

// Code points before each byte of `text`, and all of them at the end.
std::vector<int64_t> code_points_before(std::string_view text) {
  std::vector<int64_t> before(text.size() + 1);
  int64_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    before[i] = count;
    // The bytes inside a character never begin or end a span.
    if ((static_cast<uint8_t>(text[i]) & 0xc0) != 0x80) ++count;
  }
  before[text.size()] = count;
  return before;
}

// A token of a text with its place there in bytes.
struct PlacedToken {
  int32_t id;
  std::string text;
  TextSpan bytes;
};

}  // namespace

struct Tokenizer::State {
  std::string json_text;
  std::unique_ptr<const Normalizer> normalizer;       // null: none
  std::unique_ptr<const PreTokenizer> pre_tokenizer;  // null: none
  std::unique_ptr<const TokenModel> model;
  std::unique_ptr<const PostProcessor> post_processor;
  std::unique_ptr<const Decoder> decoder;
  AddedTokenMatcher raw_matcher;         // in the text as it is given
  AddedTokenMatcher normalized_matcher;  // in what the normalizer makes of it
  ByteTrie behind_model_ids;
  std::vector<std::string> behind_model;  // added tokens that the model does not have
  std::unordered_set<int32_t> special_ids;

  State(std::string text, const std::string& name);

  int32_t size() const { return model->size() + static_cast<int32_t>(behind_model.size()); }
  std::string_view token_of(int32_t id) const {
    return id < model->size() ? model->token_of(id) : behind_model[static_cast<size_t>(id - model->size())];
  }

  // Calls take_added(id, matched text, place) and take_word(word, its place in `words.text`, tokens of the word) in
  // order of the text.
  template <typename TakeAdded, typename TakeWord>
  void encode(std::string_view text, bool tracking, const TakeAdded& take_added, const TakeWord& take_word) const;

  void encode_ids(std::string_view text, std::vector<int32_t>& out) const;
  TokenEncoding encode_template(const std::vector<TemplatePiece>& pieces, std::string_view text, std::string_view pair,
                                bool add_special_tokens) const;

 private:
  void read_added(const JsonNode& added);
  std::vector<PlacedToken> encode_placed(std::string_view text) const;

  template <typename TakeWord>
  void encode_words(WorkSpace& space, const TakeWord& take_word) const;
};

Tokenizer::State::State(std::string text, const std::string& name) : json_text(std::move(text)) {
  nlohmann::json document;
  try {
    document = nlohmann::json::parse(json_text);
  } catch (const nlohmann::json::parse_error& e) {
    throw ErrorException(ErrorCode::kParse, fmt::format("{}: not JSON (byte {})", name, e.byte));
  } catch (const nlohmann::json::exception& e) {
    throw ErrorException(ErrorCode::kParse, fmt::format("{}: not JSON ({})", name, e.what()));
  }
  const JsonNode root(document, name);
  root.require_members_among({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                              "post_processor", "decoder", "model"});
  if (const JsonNode version = root.member("version"); version.string() != "1.0") {
    version.fail(fmt::format("expected '1.0', found '{}'", version.string()));
  }
  for (const char* option : {"truncation", "padding"}) {
    if (const auto node = root.find(option)) node->fail("must be null: lengths are the caller's");
  }
  if (const auto node = root.find("normalizer")) normalizer = read_normalizer(*node);
  if (const auto node = root.find("pre_tokenizer")) pre_tokenizer = read_pre_tokenizer(*node);
  model = read_model(root.member("model"));
  const auto post = root.find("post_processor");
  post_processor = post ? read_post_processor(*post) : plain_post_processor();
  const auto decoding = root.find("decoder");
  decoder = decoding ? read_decoder(*decoding) : plain_decoder();

  if (const auto added = root.find("added_tokens")) read_added(*added);
  for (const auto* pieces : {&post_processor->single(), &post_processor->pair()}) {
    for (const TemplatePiece& piece : *pieces) {
      if (piece.id < size()) continue;
      post->fail(fmt::format("'{}' has the id {}; the vocabulary has {}", piece.token, piece.id, size()));
    }
  }
}

void Tokenizer::State::read_added(const JsonNode& added) {
  const std::vector<AddedToken> tokens = read_added_tokens(added);
  behind_model = tokens_behind_model(added, tokens, *model);
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (size_t i = 0; i < behind_model.size(); ++i) {
    entries.emplace_back(behind_model[i], model->size() + static_cast<int32_t>(i));
  }
  behind_model_ids = ByteTrie(std::move(entries));
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  std::vector<std::string> raw_contents;
  std::vector<std::string> normalized_contents;
  for (const AddedToken& token : tokens) {
    if (token.special) special_ids.insert(token.id);
    (token.normalized ? normalized : raw).push_back(token);
    if (token.normalized) {
      normalized_contents.push_back(normalizer ? normalizer->apply_to(token.content) : token.content);
    } else {
      raw_contents.push_back(token.content);
    }
  }
  raw_matcher = AddedTokenMatcher(std::move(raw), raw_contents);
  normalized_matcher = AddedTokenMatcher(std::move(normalized), normalized_contents);
}

template <typename TakeWord>
void Tokenizer::State::encode_words(WorkSpace& space, const TakeWord& take_word) const {
  const size_t size = space.words.text.text().size();
  if (size == 0) return;
  space.words.word_ends.assign(1, static_cast<uint32_t>(size));
  if (pre_tokenizer) pre_tokenizer->apply(space.words, space.spare);
  const std::string_view text = space.words.text.text();
  uint32_t begin = 0;
  for (const uint32_t end : space.words.word_ends) {
    space.tokens.clear();
    const std::string_view word = text.substr(begin, end - begin);
    model->tokenize(word, space.tokens);
    take_word(word, begin, space.tokens);
    begin = end;
  }
}

template <typename TakeAdded, typename TakeWord>
void Tokenizer::State::encode(std::string_view text, bool tracking, const TakeAdded& take_added,
                              const TakeWord& take_word) const {
  WorkSpace& space = work_space();
  const auto encode_part = [&](size_t begin, size_t end) {
    if (begin == end) return;
    AlignedText& part = space.words.text;
    part.clear(tracking);
    part.append_original(text.substr(begin, end - begin), static_cast<uint32_t>(begin));
    if (normalizer) normalizer->apply(part, space.spare.text);
    if (normalized_matcher.empty()) {
      encode_words(space, take_word);
      return;
    }
    std::swap(part, space.normalized);
    const AlignedText& whole = space.normalized;
    const auto encode_piece = [&](size_t piece_begin, size_t piece_end) {
      if (piece_begin == piece_end) return;
      space.words.text.clear(tracking);
      space.words.text.append(whole, piece_begin, piece_end);
      encode_words(space, take_word);
    };
    size_t done = 0;
    AddedTokenMatcher::Cursor cursor(normalized_matcher, whole.text());
    while (const auto match = cursor.next()) {
      encode_piece(done, std::max(done, match->begin));
      const ByteSpan place = tracking ? whole.original(match->begin, match->end) : ByteSpan{};
      take_added(match->id, whole.text().substr(match->begin, match->end - match->begin), place);
      done = match->end;
    }
    encode_piece(done, whole.text().size());
  };

  size_t done = 0;
  AddedTokenMatcher::Cursor cursor(raw_matcher, text);
  while (const auto match = cursor.next()) {
    encode_part(done, std::max(done, match->begin));
    take_added(match->id, text.substr(match->begin, match->end - match->begin),
               ByteSpan{static_cast<uint32_t>(match->begin), static_cast<uint32_t>(match->end)});
    done = match->end;
  }
  encode_part(done, text.size());
}

void Tokenizer::State::encode_ids(std::string_view text, std::vector<int32_t>& out) const {
  encode(
      text, /*tracking=*/pre_tokenizer && pre_tokenizer->needs_tracking(),
      [&](int32_t id, std::string_view, ByteSpan) { out.push_back(id); },
      [&](std::string_view, uint32_t, const std::vector<ModelToken>& tokens) {
        for (const ModelToken& token : tokens) out.push_back(token.id);
      });
}

std::vector<PlacedToken> Tokenizer::State::encode_placed(std::string_view text) const {
  std::vector<PlacedToken> placed;
  const AlignedText& words = work_space().words.text;
  const auto place = [&](int32_t id, std::string_view token, ByteSpan bytes) {
    placed.push_back({id, std::string(token), {bytes.begin, bytes.end}});
  };
  encode(text, /*tracking=*/true, place,
         [&](std::string_view word, uint32_t word_begin, const std::vector<ModelToken>& tokens) {
           for (const ModelToken& token : tokens) {
             place(token.id, word.substr(token.begin, token.end - token.begin),
                   words.original(word_begin + token.begin, word_begin + token.end));
           }
         });
  return placed;
}

TokenEncoding Tokenizer::State::encode_template(const std::vector<TemplatePiece>& pieces, std::string_view text,
                                                std::string_view pair, bool add_special_tokens) const {
  require_text(text);
  require_text(pair);
  TokenEncoding encoding;
  const auto add = [&](int32_t id, std::string token, int32_t type_id, bool special, TextSpan offsets,
                       TextSpan byte_offsets) {
    encoding.ids.push_back(id);
    encoding.tokens.push_back(std::move(token));
    encoding.type_ids.push_back(type_id);
    encoding.special_tokens_mask.push_back(special ? 1 : 0);
    encoding.offsets.push_back(offsets);
    encoding.byte_offsets.push_back(byte_offsets);
  };
  for (const TemplatePiece& piece : pieces) {
    if (piece.kind == TemplatePiece::Kind::kSpecialToken) {
      if (add_special_tokens) add(piece.id, piece.token, piece.type_id, /*special=*/true, {}, {});
      continue;
    }
    const std::string_view source = piece.kind == TemplatePiece::Kind::kFirstText ? text : pair;
    const std::vector<int64_t> code_points = code_points_before(source);
    for (PlacedToken& token : encode_placed(source)) {
      const TextSpan offsets{code_points[static_cast<size_t>(token.bytes.begin)],
                             code_points[static_cast<size_t>(token.bytes.end)]};
      add(token.id, std::move(token.text), piece.type_id, /*special=*/false, offsets, token.bytes);
    }
  }
  return encoding;
}

Tokenizer Tokenizer::load(const std::string& path) { return from_json(read_whole_file(path, "tokenizer"), path); }

Tokenizer Tokenizer::from_json(std::string json_text, const std::string& name) {
  return Tokenizer(std::make_shared<const State>(std::move(json_text), name));
}

void Tokenizer::save(const std::string& path) const { write_atomically(path, state_->json_text); }

int32_t Tokenizer::size() const { return state_->size(); }

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  const auto behind = state_->behind_model_ids.find(token);
  return behind ? behind : state_->model->id_of(token);
}

std::string_view Tokenizer::token_of(int32_t id) const {
  if (id < 0 || id >= size()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("no token has the id {}; the vocabulary has {}", id, size()));
  }
  return state_->token_of(id);
}

TokenEncoding Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  return state_->encode_template(state_->post_processor->single(), text, {}, add_special_tokens);
}

TokenEncoding Tokenizer::encode_pair(std::string_view text, std::string_view pair, bool add_special_tokens) const {
  return state_->encode_template(state_->post_processor->pair(), text, pair, add_special_tokens);
}

void Tokenizer::encode_ids(std::string_view text, bool add_special_tokens, std::vector<int32_t>& out) const {
  require_text(text);
  for (const TemplatePiece& piece : state_->post_processor->single()) {
    if (piece.kind == TemplatePiece::Kind::kFirstText) {
      state_->encode_ids(text, out);
    } else if (add_special_tokens) {
      out.push_back(piece.id);
    }
  }
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string_view> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0 || id >= size() || (skip_special_tokens && state_->special_ids.contains(id))) continue;
    tokens.push_back(state_->token_of(id));
  }
  return state_->decoder->decode(tokens);
}

void fuzz_tokenizer(std::string_view bytes) {
  try {
    const Tokenizer tokenizer = Tokenizer::from_json(std::string(bytes));
    for (const std::string_view text : {"", " the ``mill'' [MASK] a\n", "\u65e5\u2581 \u00e9<mark>zz"}) {
      const TokenEncoding encoding = tokenizer.encode(text);
      std::vector<int32_t> ids;
      tokenizer.encode_ids(text, /*add_special_tokens=*/true, ids);
      if (ids != encoding.ids) throw std::logic_error("encode and encode_ids differ");
      for (const int32_t id : ids) (void)tokenizer.token_of(id);
      (void)tokenizer.decode(ids, /*skip_special_tokens=*/false);
    }
  } catch (const ErrorException&) {
    // Most bytes are no tokenizer.
  }
}

}  // namespace millrace
