#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/tokenizer/tokenizer.h"

namespace millrace {

/// What a learnt vocabulary's tokenizer.json is like.
enum class UnigramLayout {
  /// Of the masked language model example: `[CLS]` 0, `[SEP]` 1, `<unk>` 2, `<pad>` 3, `[MASK]` 4 (with the white space
  /// before it); two grave accents and '' become ", nothing else is normalised; a word begins at each space, other
  /// white space is an ordinary character; a text is [CLS] A [SEP], a pair [CLS] A [SEP] B [SEP].
  kMaskedLm,
  /// Of a T5: `<pad>` 0, `</s>` 1, `<unk>` 2, and at the end `<extra_id_99>` to `<extra_id_0>`; NFKC; words are what
  /// stands between white space; a text is A </s>, a pair A </s> B </s>.
  kT5,
};

struct UnigramTrainerOptions {
  /// Default: kMaskedLm.
  UnigramLayout layout = UnigramLayout::kMaskedLm;
  /// Words that must be one token each, also where the text does not have them: the least likely pieces make room.
  /// Default: none.
  std::vector<std::string> whole_words = {};
  /// Tokens in the vocabulary, the special ones included. Default: 10,048.
  int32_t vocab_size = 10048;
  /// Share of the text's characters that must have a piece of their own; the rarest may be left out below 1, and are
  /// then unknown. Default: 1.
  double character_coverage = 1.0;
  /// Cores that the training may use; 0: all that the process may. The result does not depend on it. Default: 0.
  int threads = 0;
  /// Distinct words that the pieces are learnt from. A text that has more is represented by so many of them, chosen and
  /// weighted as `WordCounts::sample` says. Learning takes about 0.15 s of a core for each 1,000. Default: 150,000.
  int64_t max_words = 150'000;
  /// Of the choice of rare words, where the text has more than `max_words`. Default: 42.
  uint64_t seed = 42;
};

/// Learns a unigram vocabulary (Kudo 2018, https://arxiv.org/abs/1804.10959) from text, with sentencepiece, and gives
/// it the layout that is asked for. Pieces do not cross from one script or number into another.
///
/// The result is a pure function of the words with their counts and of the options but for `threads`.
///
///     UnigramTrainer trainer({.vocab_size = 8000});
///     for (std::string line; corpus.next(line);) trainer.add(line);
///     trainer.train().save("tokenizer.json");
///
/// One thread at a time.
class UnigramTrainer {
 public:
  /// The special tokens of `kMaskedLm`, in order of their ids.
  static constexpr const char* kSpecialTokens[] = {"[CLS]", "[SEP]", "<unk>", "<pad>", "[MASK]"};
  /// `<extra_id_N>` in `kT5`.
  static constexpr int kNumExtraIds = 100;

  /// Throws `kInvalidArgument` naming the option and its limit, or a word of `whole_words` that no text can make one
  /// token of: empty, with white space or a special token in it, or changed by the normalizer.
  explicit UnigramTrainer(const UnigramTrainerOptions& options = {});
  ~UnigramTrainer();
  UnigramTrainer(UnigramTrainer&&) noexcept;
  UnigramTrainer& operator=(UnigramTrainer&&) noexcept;

  /// Counts the words of a text, as the tokenizer will cut them. Throws `kParse` when it is not UTF-8.
  void add(std::string_view text);

  int64_t num_words() const;
  int64_t num_distinct_words() const;

  /// Learns the vocabulary. Throws `kInvalidArgument` when there is no text, or when `vocab_size` is smaller than the
  /// text allows, with the smallest size that it does, or larger, with the number of tokens that were found (another
  /// `vocab_size` may find more or fewer), or when one of `whole_words` cannot be one token; `kOutOfMemory`; `kIo`
  /// where the process that sentencepiece runs in (docs/decisions/sentencepiece_in_its_own_process.md) cannot be
  /// started or is killed.
  [[nodiscard]] Tokenizer train() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
