#include "millrace/tokenizer/tokenizer.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/atomic_file.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/added_vocabulary.h"
#include "millrace/tokenizer/decoders/decoder.h"
#include "millrace/tokenizer/encoding_rows.h"
#include "millrace/tokenizer/json_node.h"
#include "millrace/tokenizer/json_text.h"
#include "millrace/tokenizer/kept_memory.h"
#include "millrace/tokenizer/models/model.h"
#include "millrace/tokenizer/normalizers/normalizer.h"
#include "millrace/tokenizer/offset_trimming.h"
#include "millrace/tokenizer/post_processors/post_processor.h"
#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"

namespace millrace {
namespace {

// Normalization makes texts longer, and positions are 32 bits.
constexpr size_t kMaxTextBytes = size_t{1} << 28;

// What encoding one text needs. Each thread keeps one, so that steady work allocates nothing.
struct WorkSpace {
  WordedText words;
  WordedText spare;
  AlignedText normalized;
  std::vector<ModelToken> tokens;

  void clear_and_free_large() {
    for (AlignedText* text : {&words.text, &spare.text, &normalized}) text->clear_and_free_large();
    for (std::vector<uint32_t>* ends : {&words.word_ends, &spare.word_ends}) free_large(*ends);
    free_large(tokens);
  }
};

// The work space of this thread for one text.
class WorkSpaceUse {
 public:
  explicit WorkSpaceUse(WorkSpace& space) : space_(space) {}
  ~WorkSpaceUse() { space_.clear_and_free_large(); }
  WorkSpaceUse(const WorkSpaceUse&) = delete;
  WorkSpaceUse& operator=(const WorkSpaceUse&) = delete;

 private:
  WorkSpace& space_;
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

// What is wrong with it is said as JsonNode says it.
nlohmann::json parse_file(const std::string& text, const std::string& name) {
  try {
    return parse_json(text, "");
  } catch (const ErrorException& e) {
    throw ErrorException(ErrorCode::kParse, fmt::format("{}: {}", name, e.error().message));
  }
}

size_t num_special_tokens(const std::vector<TemplatePiece>& pieces) {
  return static_cast<size_t>(std::count_if(pieces.begin(), pieces.end(), [](const TemplatePiece& piece) {
    return piece.kind == TemplatePiece::Kind::kSpecialToken;
  }));
}

}  // namespace

struct Tokenizer::State {
  std::shared_ptr<const Normalizer> normalizer;       // null: none
  std::shared_ptr<const PreTokenizer> pre_tokenizer;  // null: none
  std::shared_ptr<const TokenModel> model;
  std::shared_ptr<const PostProcessor> post_processor;  // null: none
  std::shared_ptr<const Decoder> decoder;               // null: tokens with spaces between them
  std::shared_ptr<const AddedVocabulary> added;
  std::optional<TokenTruncation> truncation;
  std::optional<TokenPadding> padding;

  State(const std::string& json_text, const std::string& name);

  int32_t size() const { return model->size() + added->size(); }
  std::string_view token_of(int32_t id) const {
    return id < model->size() ? model->token_of(id) : added->token(id - model->size());
  }
  const std::vector<TemplatePiece>& single() const;
  const std::vector<TemplatePiece>& pair() const;
  nlohmann::ordered_json to_json() const;

  void encode_ids(std::string_view text, std::vector<int32_t>& out) const;
  // The tokens of a text: their ids, texts, masks and places in bytes.
  TokenEncoding encode_text(std::string_view text) const;
  TokenEncoding encode_template(const std::vector<TemplatePiece>& pieces, std::string_view text, std::string_view pair,
                                bool add_special_tokens) const;

 private:
  // Calls take_added(id, matched text, place) and take_word(word, its place in `words.text`, tokens of the word) in
  // order of the text.
  template <typename TakeAdded, typename TakeWord>
  void encode(std::string_view text, bool tracking, const TakeAdded& take_added, const TakeWord& take_word) const;
  template <typename TakeWord>
  void encode_words(WorkSpace& space, const TakeWord& take_word) const;
};

Tokenizer::State::State(const std::string& json_text, const std::string& name) {
  const nlohmann::json document = parse_file(json_text, name);
  const JsonNode root(document, name);
  root.require_members_among({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                              "post_processor", "decoder", "model"});
  if (const auto version = root.find("version"); version && version->string() != "1.0") {
    version->fail(fmt::format("expected '1.0', found '{}'", excerpt(version->string())));
  }
  if (const auto node = root.find("truncation")) truncation = TokenTruncation::read(*node);
  if (const auto node = root.find("padding")) padding = TokenPadding::read(*node);
  if (const auto node = root.find("normalizer")) normalizer = read_normalizer(*node);
  if (const auto node = root.find("pre_tokenizer")) pre_tokenizer = read_pre_tokenizer(*node);
  model = read_model(root.member("model"));
  const auto post = root.find("post_processor");
  if (post) post_processor = read_post_processor(*post);
  if (const auto node = root.find("decoder")) decoder = read_decoder(*node);
  const auto list = root.find("added_tokens");
  added = list ? std::make_shared<const AddedVocabulary>(*list, *model, normalizer.get())
               : std::make_shared<const AddedVocabulary>();
  for (const auto* pieces : {&single(), &pair()}) {
    for (const TemplatePiece& piece : *pieces) {
      if (piece.id < size()) continue;
      post->fail(fmt::format("'{}' has the id {}; the vocabulary has {}", excerpt(piece.token), piece.id, size()));
    }
  }
}

const std::vector<TemplatePiece>& Tokenizer::State::single() const {
  const std::vector<TemplatePiece>* pieces = post_processor ? post_processor->single() : nullptr;
  return pieces != nullptr ? *pieces : plain_single();
}

const std::vector<TemplatePiece>& Tokenizer::State::pair() const {
  const std::vector<TemplatePiece>* pieces = post_processor ? post_processor->pair() : nullptr;
  return pieces != nullptr ? *pieces : plain_pair();
}

nlohmann::ordered_json Tokenizer::State::to_json() const {
  const auto or_null = [](const auto& component) {
    return component ? component->to_json() : nlohmann::ordered_json();
  };
  return {{"version", "1.0"},
          {"truncation", or_null(truncation)},
          {"padding", or_null(padding)},
          {"added_tokens", added->to_json()},
          {"normalizer", or_null(normalizer)},
          {"pre_tokenizer", or_null(pre_tokenizer)},
          {"post_processor", or_null(post_processor)},
          {"decoder", or_null(decoder)},
          {"model", model->to_json()}};
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
  const WorkSpaceUse use(space);
  const auto encode_part = [&](size_t begin, size_t end) {
    if (begin == end) return;
    AlignedText& part = space.words.text;
    part.clear(tracking);
    part.append_original(text.substr(begin, end - begin), static_cast<uint32_t>(begin));
    if (normalizer) normalizer->apply(part, space.spare.text);
    if (added->normalized().empty()) {
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
    AddedTokenMatcher::Cursor cursor(added->normalized(), whole.text());
    while (const auto match = cursor.next()) {
      encode_piece(done, std::max(done, match->begin));
      const ByteSpan place = tracking ? whole.original(match->begin, match->end) : ByteSpan{};
      take_added(match->id, whole.text().substr(match->begin, match->end - match->begin), place);
      done = match->end;
    }
    encode_piece(done, whole.text().size());
  };

  size_t done = 0;
  AddedTokenMatcher::Cursor cursor(added->raw(), text);
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

TokenEncoding Tokenizer::State::encode_text(std::string_view text) const {
  TokenEncoding encoding;
  const AlignedText& words = work_space().words.text;
  const auto place = [&](int32_t id, std::string_view token, ByteSpan bytes) {
    append_token(encoding, id, std::string(token), {bytes.begin, bytes.end});
  };
  encode(text, /*tracking=*/true, place,
         [&](std::string_view word, uint32_t word_begin, const std::vector<ModelToken>& tokens) {
           for (const ModelToken& token : tokens) {
             // Bytes of a prefix or suffix that is not in the word can be tokens too.
             const bool inside = token.end <= word.size();
             const uint32_t begin = word_begin + (inside ? token.begin : 0);
             const uint32_t end = word_begin + (inside ? token.end : static_cast<uint32_t>(word.size()));
             place(token.id, model->text_of(token, word), words.original(begin, end));
           }
         });
  return encoding;
}

TokenEncoding Tokenizer::State::encode_template(const std::vector<TemplatePiece>& pieces, std::string_view text,
                                                std::string_view pair_text, bool add_special_tokens) const {
  require_text(text);
  require_text(pair_text);
  const bool is_pair = &pieces == &pair();
  TokenEncoding first = encode_text(text);
  TokenEncoding second = is_pair ? encode_text(pair_text) : TokenEncoding();
  if (truncation) {
    const auto [first_length, second_length] = truncation->lengths(first.ids.size(), second.ids.size(), is_pair,
                                                                   add_special_tokens ? num_special_tokens(pieces) : 0);
    cut_tokens(first, first_length, truncation->direction);
    cut_tokens(second, second_length, truncation->direction);
  }
  const std::vector<OffsetTrimming> trimmings =
      post_processor ? post_processor->trimmings() : std::vector<OffsetTrimming>{};
  set_offsets(text, trimmings, /*is_second=*/false, add_special_tokens, first);
  set_offsets(pair_text, trimmings, /*is_second=*/true, add_special_tokens, second);
  TokenEncoding encoding;
  for (const TemplatePiece& piece : pieces) {
    const size_t begin = encoding.ids.size();
    if (piece.kind == TemplatePiece::Kind::kSpecialToken) {
      if (!add_special_tokens) continue;
      append_token(encoding, piece.id, piece.token, {});
      encoding.special_tokens_mask.back() = 1;
      encoding.offsets.push_back({});
    } else {
      move_tokens(piece.kind == TemplatePiece::Kind::kFirstText ? first : second, encoding);
    }
    encoding.type_ids.insert(encoding.type_ids.end(), encoding.ids.size() - begin, piece.type_id);
  }
  encoding.attention_mask.assign(encoding.ids.size(), 1);
  if (padding) pad_tokens(encoding, *padding);
  return encoding;
}

Tokenizer Tokenizer::load(const std::string& path) { return from_json(read_whole_anywhere(path, "tokenizer"), path); }

Tokenizer Tokenizer::from_json(const std::string& json_text, const std::string& name) {
  return Tokenizer(std::make_shared<const State>(json_text, name));
}

std::string Tokenizer::to_json() const { return json_text(state_->to_json()); }

void Tokenizer::save(const std::string& path) const { write_atomically(path, to_json()); }

const std::optional<TokenTruncation>& Tokenizer::truncation() const { return state_->truncation; }

const std::optional<TokenPadding>& Tokenizer::padding() const { return state_->padding; }

Tokenizer Tokenizer::with_truncation(std::optional<TokenTruncation> truncation) const {
  auto changed = std::make_shared<State>(*state_);
  changed->truncation = truncation;
  return Tokenizer(std::move(changed));
}

Tokenizer Tokenizer::with_padding(std::optional<TokenPadding> padding) const {
  auto changed = std::make_shared<State>(*state_);
  changed->padding = std::move(padding);
  return Tokenizer(std::move(changed));
}

int32_t Tokenizer::size() const { return state_->size(); }

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  const auto added = state_->added->id_of(token);
  return added ? added : state_->model->id_of(token);
}

std::string_view Tokenizer::token_of(int32_t id) const {
  if (id < 0 || id >= size()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("no token has the id {}; the vocabulary has {}", id, size()));
  }
  return state_->token_of(id);
}

TokenEncoding Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  return state_->encode_template(state_->single(), text, {}, add_special_tokens);
}

TokenEncoding Tokenizer::encode_pair(std::string_view text, std::string_view pair, bool add_special_tokens) const {
  return state_->encode_template(state_->pair(), text, pair, add_special_tokens);
}

void Tokenizer::encode_ids(std::string_view text, bool add_special_tokens, std::vector<int32_t>& out) const {
  require_text(text);
  const std::vector<TemplatePiece>& pieces = state_->single();
  const size_t begin = out.size();
  for (const TemplatePiece& piece : pieces) {
    if (piece.kind == TemplatePiece::Kind::kSpecialToken) {
      if (add_special_tokens) out.push_back(piece.id);
      continue;
    }
    const size_t text_begin = out.size();
    state_->encode_ids(text, out);
    if (!state_->truncation) continue;
    const size_t num_added = add_special_tokens ? num_special_tokens(pieces) : 0;
    const auto lengths = state_->truncation->lengths(out.size() - text_begin, 0, /*pair=*/false, num_added);
    keep_tokens(out, text_begin, lengths.first, state_->truncation->direction);
  }
  if (!state_->padding) return;
  const TokenPadding& padding = *state_->padding;
  const size_t length = out.size() - begin;
  const auto place =
      padding.direction == TokenEnd::kRight ? out.end() : out.begin() + static_cast<std::ptrdiff_t>(begin);
  out.insert(place, padding.padded_length(length) - length, padding.pad_id);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> pieces;
  pieces.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0 || id >= size()) continue;
    const std::string_view token = state_->token_of(id);
    if (!skip_special_tokens || !state_->added->is_special(token)) pieces.emplace_back(token);
  }
  if (!state_->decoder) return fmt::format("{}", fmt::join(pieces, " "));
  state_->decoder->apply(pieces);
  return fmt::format("{}", fmt::join(pieces, ""));
}

}  // namespace millrace
