#include "millrace/tokenizer/training/unigram_trainer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "millrace/formats/error.h"
#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/added_tokens.h"
#include "millrace/tokenizer/normalizers/normalizer.h"
#include "millrace/tokenizer/pre_tokenizers/pre_tokenizer.h"
#include "millrace/tokenizer/training/embedded_program.h"
#include "millrace/tokenizer/training/message_fields.h"
#include "millrace/tokenizer/training/unigram_layout.h"
#include "millrace/tokenizer/training/word_counts.h"

namespace millrace {

extern const std::string_view kLearnUnigram;  // the program of learn_unigram.cc, made by the build

namespace {

using nlohmann::ordered_json;

constexpr std::string_view kWordBegin = "\u2581";

// sentencepiece gives each of its threads a share of the words and adds up what they found, so another number of them
// rounds differently: it is always this one, and how many run at a time is what `threads` decides.
constexpr int kNumShares = 8;

// Longer words are cut: sentencepiece leaves long sentences out, and the likelihood of very long ones underflows.
constexpr size_t kMaxWordBytes = 512;

// Characters that sentencepiece drops, its column separator and its mark for unknowns, and the noncharacters that take
// their places while it learns.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kStandIns = {{
    {std::string_view("\0", 1), "\ufdd0"},
    {"\t", "\ufdd1"},
    {"\u2585", "\ufdd2"},
}};

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string replaced;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    replaced.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return replaced.append(text);
}

std::string with_stand_ins(std::string text) {
  for (const auto& [character, stand_in] : kStandIns) {
    if (text.find(character) != std::string::npos) text = replace_all(text, character, stand_in);
  }
  return text;
}

std::string without_stand_ins(std::string text) {
  for (const auto& [character, stand_in] : kStandIns) {
    if (text.find(stand_in) != std::string::npos) text = replace_all(text, stand_in, character);
  }
  return text;
}

AddedTokenMatcher special_token_matcher(const UnigramFile& file) {
  std::vector<std::string> contents = file.first;
  contents.insert(contents.end(), file.last.begin(), file.last.end());
  std::vector<AddedToken> tokens;
  tokens.reserve(contents.size());
  for (const std::string& content : contents) {
    tokens.push_back({.id = static_cast<int32_t>(tokens.size()), .content = content, .special = true});
  }
  return {std::move(tokens), contents};
}

// Words with their counts, as fields for sentencepiece (learn_unigram.cc).
class WordRows {
 public:
  // Candidates for pieces are strings that something different follows in different places. A word that comes twice in
  // its row is followed by the row's end and by a word's beginning, so whole words are among them. All counts double.
  void add(std::string_view word, int64_t count) {
    if (word.empty()) return;
    const std::string row = with_stand_ins(std::string(word));
    if (word.starts_with(kWordBegin)) {
      append_field(fields_, fmt::format("{}{}\t{}", row, row, count));
    } else {
      append_field(fields_, fmt::format("{}\t{}", row, 2 * count));
    }
  }
  const std::string& fields() const { return fields_; }

 private:
  std::string fields_;
};

// The number after `before` in a message of sentencepiece.
std::optional<int64_t> number_after(std::string_view message, std::string_view before) {
  const size_t at = message.find(before);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = message.substr(at + before.size());
  int64_t number = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return result.ec == std::errc() ? std::optional(number) : std::nullopt;
}

size_t character_end(std::string_view text, size_t begin) {
  size_t end = begin + 1;
  while (end < text.size() && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) ++end;
  return end;
}

struct Alphabet {
  std::set<std::string> characters;
  int64_t num_occurrences = 0;  // of all characters of the text
};

// The characters that must have a piece: the most frequent ones, as many as it takes to cover `coverage` of the text.
Alphabet covered_characters(const WordCounts& counts, double coverage) {
  Alphabet alphabet;
  std::unordered_map<std::string, int64_t> occurrences;
  for (const auto& [word, count] : counts.words()) {
    for (size_t begin = 0; begin < word.size();) {
      const size_t end = character_end(word, begin);
      occurrences[word.substr(begin, end - begin)] += count;
      alphabet.num_occurrences += count;
      begin = end;
    }
  }
  std::vector<std::pair<std::string, int64_t>> sorted(occurrences.begin(), occurrences.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  int64_t sum = 0;
  for (const auto& [character, count] : sorted) {
    if (static_cast<double>(sum) >= coverage * static_cast<double>(alphabet.num_occurrences)) break;
    alphabet.characters.insert(character);
    sum += count;
  }
  return alphabet;
}

// A word without the characters that are not covered is what lies between them: no piece crosses an unknown character.
void add_covered_parts(std::string_view word, int64_t count, const std::set<std::string>& covered, WordRows& rows) {
  size_t part = 0;
  for (size_t begin = 0; begin < word.size();) {
    const size_t end = character_end(word, begin);
    if (!covered.contains(std::string(word.substr(begin, end - begin)))) {
      rows.add(word.substr(part, begin - part), count);
      part = end;
    }
    begin = end;
  }
  rows.add(word.substr(part), count);
}

[[noreturn]] void refuse(const std::string& why) { throw ErrorException(ErrorCode::kInvalidArgument, why); }

// What sentencepiece makes of the message, in order of ids; `num_last` tokens follow them. The answer counts only where
// it is whole, whatever the program ended with.
std::vector<UnigramPiece> learned_pieces(std::string_view message, int32_t num_learned, int32_t num_last) {
  const ProgramResult result = run_embedded_program("learn_unigram", kLearnUnigram, message);
  std::string_view answer = result.output;
  const std::string_view kind = take_field(answer).value_or("");
  if (kind == "out_of_memory") throw ErrorException(ErrorCode::kOutOfMemory, "sentencepiece has no more memory");
  if (kind == "refused") {
    const std::string_view why = take_field(answer).value_or("");
    if (const auto found = number_after(why, "Please set it to a value <= ")) {
      refuse(fmt::format(
          "a vocabulary of {} is too large for this text: on the way to it {} tokens were found; try one of "
          "{}",
          num_learned + num_last, *found + num_last, *found + num_last));
    }
    refuse(fmt::format("sentencepiece cannot learn a vocabulary: {}", why));
  }
  std::vector<UnigramPiece> pieces;
  while (const auto piece = take_field(answer)) {
    if (piece->empty()) return pieces;
    const std::string_view digits = take_field(answer).value_or("");
    float score = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), score);
    pieces.emplace_back(*piece, score);
  }
  throw ErrorException(ErrorCode::kIo, fmt::format("the process of sentencepiece {} without a result", result.ending));
}

Tokenizer tokenizer_of(const UnigramFile& file, std::span<const UnigramPiece> pieces) {
  ordered_json document = file.json;
  ordered_json& vocabulary = document["model"]["vocab"];
  for (const auto& [piece, score] : pieces) vocabulary.push_back({piece, static_cast<double>(score)});
  for (const std::string& token : file.last) vocabulary.push_back({token, 0.0});
  return Tokenizer::from_json(document.dump(2) + "\n");
}

// The least likely piece that may go, as a word's characters and parts that are needed must not.
size_t least_likely(std::span<const UnigramPiece> pieces, size_t num_first, const std::set<std::string>& needed) {
  size_t least = pieces.size();
  for (size_t i = num_first; i < pieces.size(); ++i) {
    const std::string& piece = pieces[i].first;
    if (character_end(piece, 0) == piece.size() || needed.contains(piece)) continue;
    if (least == pieces.size() || pieces[i].second <= pieces[least].second) least = i;
  }
  return least;
}

std::vector<int32_t> parts_of(const Tokenizer& tokenizer, const std::string& word) {
  std::vector<int32_t> parts;
  tokenizer.encode_ids(word, /*add_special_tokens=*/false, parts);
  return parts;
}

bool is_one_token(std::span<const int32_t> parts) { return parts.size() == 1 && parts[0] != kUnigramUnknownId; }

// A word that is cut becomes a piece that is somewhat more likely than its parts together, so hardly another word is
// cut otherwise.
void add_whole_words(std::span<const std::string> words, const UnigramFile& file, std::vector<UnigramPiece>& pieces) {
  std::set<std::string> needed;
  for (const std::string& word : words) needed.insert(std::string(kWordBegin) + word);
  for (const std::string& word : words) {
    const std::vector<int32_t> parts = parts_of(tokenizer_of(file, pieces), word);
    if (is_one_token(parts)) continue;
    float score = 0;
    for (const int32_t part : parts) score += pieces.at(static_cast<size_t>(part)).second;
    const size_t place = least_likely(pieces, file.first.size(), needed);
    if (place == pieces.size()) refuse(fmt::format("the vocabulary is too small for '{}' to be a token", word));
    pieces[place] = {std::string(kWordBegin) + word, score + std::min(1.0F, -score / 2)};
  }
  const Tokenizer tokenizer = tokenizer_of(file, pieces);
  for (const std::string& word : words) {
    const std::vector<int32_t> parts = parts_of(tokenizer, word);
    if (is_one_token(parts)) continue;
    refuse(fmt::format("'{}' cannot be one token: the tokenizer makes {} of it", word, parts.size()));
  }
}

}  // namespace

struct UnigramTrainer::State {
  explicit State(const UnigramTrainerOptions& given)
      : options(given),
        file(unigram_file(given.layout, given.vocab_size)),
        special_tokens(special_token_matcher(file)) {
    const auto document = nlohmann::json::parse(file.json.dump());
    const JsonNode root(document, "tokenizer.json");
    normalizer = read_normalizer(root.member("normalizer"));
    pre_tokenizer = read_pre_tokenizer(root.member("pre_tokenizer"));
  }

  // Into `words`.
  void cut(std::string_view text) {
    words.text.clear(/*tracking=*/false);
    words.text.append_original(text, 0);
    normalizer->apply(words.text, spare.text);
    words.word_ends.assign(1, static_cast<uint32_t>(words.text.text().size()));
    pre_tokenizer->apply(words, spare);
  }

  // What no text can make a token of a word, whatever is learnt.
  void check_whole_word(const std::string& word) {
    if (word.empty()) refuse("an empty word cannot be one token");
    if (valid_utf8_prefix(word) != word.size()) refuse("a word that must be one token is not UTF-8");
    if (AddedTokenMatcher::Cursor(special_tokens, word).next()) {
      refuse(fmt::format("'{}' cannot be one token: it has a special token in it, or is one", word));
    }
    cut(word);
    if (words.word_ends.size() == 1 && words.text.text() == std::string(kWordBegin) + word) return;
    refuse(fmt::format("'{}' cannot be one token: the tokenizer changes or cuts it", word));
  }

  void add_part(std::string_view part) {
    if (part.empty()) return;
    cut(part);
    uint32_t begin = 0;
    for (const uint32_t end : words.word_ends) {
      add_word(words.text.text().substr(begin, end - begin));
      begin = end;
    }
  }

  void add_word(std::string_view word) {
    while (word.size() > kMaxWordBytes) {
      const size_t cut = valid_utf8_prefix(word.substr(0, kMaxWordBytes));
      counts.add(word.substr(0, cut));
      word.remove_prefix(cut);
    }
    counts.add(word);
  }

  UnigramTrainerOptions options;
  UnigramFile file;
  AddedTokenMatcher special_tokens;
  std::unique_ptr<const Normalizer> normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  WordCounts counts;
  WordedText words;
  WordedText spare;
};

UnigramTrainer::UnigramTrainer(const UnigramTrainerOptions& options) {
  const int32_t num_special = unigram_file(options.layout, options.vocab_size).num_special();
  if (options.vocab_size <= num_special) {
    refuse(fmt::format("vocab_size is {}, must be above the {} special tokens", options.vocab_size, num_special));
  }
  if (!(options.character_coverage > 0 && options.character_coverage <= 1)) {
    refuse(fmt::format("character_coverage is {}, must be above 0 and at most 1", options.character_coverage));
  }
  if (options.threads < 0) refuse(fmt::format("threads is {}, must be at least 0", options.threads));
  if (options.max_words < 1) refuse(fmt::format("max_words is {}, must be at least 1", options.max_words));
  state_ = std::make_unique<State>(options);
  for (const std::string& word : options.whole_words) state_->check_whole_word(word);
}

UnigramTrainer::~UnigramTrainer() = default;
UnigramTrainer::UnigramTrainer(UnigramTrainer&&) noexcept = default;
UnigramTrainer& UnigramTrainer::operator=(UnigramTrainer&&) noexcept = default;

void UnigramTrainer::add(std::string_view text) {
  const size_t valid = valid_utf8_prefix(text);
  if (valid != text.size()) {
    throw ErrorException(
        Error{.code = ErrorCode::kParse, .message = "the text is not UTF-8", .offset = static_cast<int64_t>(valid)});
  }
  // What the tokenizer cuts out as special tokens is no text.
  size_t done = 0;
  AddedTokenMatcher::Cursor cursor(state_->special_tokens, text);
  while (const auto match = cursor.next()) {
    state_->add_part(text.substr(done, match->begin - done));
    done = match->end;
  }
  state_->add_part(text.substr(done));
}

int64_t UnigramTrainer::num_words() const { return state_->counts.total(); }
int64_t UnigramTrainer::num_distinct_words() const { return static_cast<int64_t>(state_->counts.words().size()); }

Tokenizer UnigramTrainer::train() const {
  const UnigramTrainerOptions& options = state_->options;
  if (state_->counts.total() == 0) refuse("there is no text to learn a vocabulary from");
  const Alphabet alphabet = covered_characters(state_->counts, options.character_coverage);
  const UnigramFile& file = state_->file;
  const int32_t num_special = file.num_special();
  const int64_t smallest = static_cast<int64_t>(alphabet.characters.size()) + num_special;
  if (options.vocab_size < smallest) {
    refuse(fmt::format("a vocabulary of {} is too small for this text: its {} characters and {} special tokens need {}",
                       options.vocab_size, alphabet.characters.size(), num_special, smallest));
  }
  WordRows rows;
  for (const auto& [word, count] : state_->counts.sample(static_cast<size_t>(options.max_words), options.seed)) {
    add_covered_parts(word, count, alphabet.characters, rows);
  }
  // sentencepiece ends its alphabet where the share that it covers rounds to 1 as a float, and rare characters may be
  // in no word of the sample: each character also comes by itself, often enough to count.
  const int64_t noticed = alphabet.num_occurrences / (int64_t{1} << 23) + 1;
  for (const std::string& character : alphabet.characters) rows.add(character, noticed);

  const auto num_last = static_cast<int32_t>(file.last.size());
  const int32_t num_learned = options.vocab_size - num_last;
  std::vector<std::pair<std::string, std::string>> arguments = {
      {"model_type", "unigram"},
      {"vocab_size", std::to_string(num_learned)},
      {"unk_id", std::to_string(kUnigramUnknownId)},
      // The words come ready: normalised, with a U+2581 where the tokenizer puts one, and counted.
      {"input_format", "tsv"},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"character_coverage", "1"},
      {"num_threads", std::to_string(kNumShares)},
      // Nothing on standard error: what went wrong is in the status.
      {"minloglevel", "3"},
  };
  arguments.insert(arguments.end(), file.learning.begin(), file.learning.end());
  std::string message;
  append_field(message, std::to_string(::getpid()));
  append_field(message, std::to_string(options.threads));
  for (const auto& [name, value] : arguments) {
    append_field(message, name);
    append_field(message, value);
  }
  append_field(message, "");
  std::vector<UnigramPiece> pieces = learned_pieces(message.append(rows.fields()), num_learned, num_last);
  for (auto& [piece, score] : pieces) piece = without_stand_ins(piece);
  add_whole_words(options.whole_words, file, pieces);
  return tokenizer_of(file, pieces);
}

}  // namespace millrace
