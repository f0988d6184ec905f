#include "millrace/ops/batch/window.h"

#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/ops/place_checks.h"

namespace millrace {
namespace {

constexpr std::string_view kName = "window";

// Positions are those of elements, notes not counted, from where the stage was opened.
class WindowStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "window";

  WindowStage(const SchemaPtr& input_schema, SchemaPtr schema, std::unique_ptr<Stage> input, int64_t size,
              const WindowOptions& options, bool drop_remainder, BatchStage::Assemble assemble,
              const StageContext& context)
      : schema_(std::move(schema)),
        input_(std::move(input)),
        size_(size),
        shift_(*options.shift),
        stride_(options.stride),
        drop_remainder_(drop_remainder),
        assemble_(std::move(assemble)),
        context_(context),
        most_bytes_(context.memory_budget() / 4 * 3),
        copier_(input_schema, context.pool),
        ready_(input_schema, context.pool) {
    if (context.state == nullptr) return;
    const std::vector<int64_t>& numbers = numbers_of(*context.state, kKind, 3);
    start_ = place_within(kKind, numbers[0], shift_);
    notes_gone_ = numbers[1];
    num_given_ = numbers[2];
  }

  // Throws `kMemoryBudget` when the elements that wait take more than there is.
  Poll next(Block& out) override {
    while (true) {
      if (ready_.num_elements() >= kBlockElements || ready_.byte_size() >= kBlockBytes) return deliver(out);
      // After the last element that the window takes.
      const int64_t end = start_ + (size_ - 1) * stride_ + 1;
      if (read_ >= end || (ended_ && read_ > start_ && !drop_remainder_)) {
        if (give_window(std::min(end, read_), out)) return Poll::kBlock;
        continue;
      }
      if (ended_ && read_ > start_) {
        // Dropped, but not what it says of the data.
        if (!ready_.empty()) return deliver(out);
        if (give_lasting_error(out)) return Poll::kBlock;
        continue;
      }
      if (ended_) return ready_.empty() ? Poll::kEnd : deliver(out);
      if (passing_.num_elements() > 0) {
        if (!ready_.empty()) return deliver(out);
        if (pass(out)) return Poll::kBlock;
        continue;
      }
      forget();
      if (rest_.num_elements() == 0) {
        const Poll poll = input_->next(rest_);
        if (poll == Poll::kPending) return ready_.empty() ? poll : deliver(out);
        if (poll == Poll::kEnd) {
          rest_ = Block();
          ended_ = true;
          continue;
        }
      }
      read_some();
    }
  }

 private:
  // Elements without notes between them.
  struct Piece {
    int64_t first;  // position
    Block block;
    int64_t end() const { return first + static_cast<int64_t>(block.num_elements()); }
  };

  // Takes in what `rest_` has up to a note or an error that passes by all windows, and that.
  void read_some() {
    const size_t count = rest_.num_elements();
    size_t end = count;
    for (const ElementError& error : rest_.errors()) {
      if (!error.is_note() && (!is_lasting(*error.error) || is_taken(read_ + static_cast<int64_t>(error.element)))) {
        continue;
      }
      end = error.element;
      break;
    }
    if (end > 0) {
      hold(rest_.slice(0, end));
      read_ += static_cast<int64_t>(end);
    }
    if (end < count) passing_ = rest_.slice(end++, 1);
    rest_ = end < count ? rest_.slice(end, count - end) : Block();
  }

  // Keeps elements for the windows to come.
  void hold(Block elements) {
    // What waits for more than the next few blocks is copied: a view keeps the chunk that it came in.
    if ((size_ - 1) * stride_ >= 2 * static_cast<int64_t>(kBlockElements)) {
      copier_.append_copied(elements, 0, elements.num_elements());
      Block copy = copier_.finish();
      copy.rows_per_element = elements.rows_per_element;
      copy.epoch = elements.epoch;
      copy.cursor = std::move(elements.cursor);
      elements = std::move(copy);
    }
    held_bytes_ += elements.byte_size();
    pieces_.push_back({read_, std::move(elements)});
    if (held_bytes_ <= most_bytes_) return;
    throw ErrorException(
        ErrorCode::kMemoryBudget,
        fmt::format(
            "{}: {} elements that wait for a window of {}, {} apart, take {} bytes, more than three quarters of "
            "the memory budget of {} bytes",
            kName, pieces_.back().end() - pieces_.front().first, size_, stride_, held_bytes_,
            context_.memory->budget()));
  }

  // What cannot be read is told even where no window takes it; what a function of the user or an operator refuses goes
  // with its element, as in tf.data.
  static bool is_lasting(const Error& error) {
    if (error.ends_stream) return true;
    return error.code != ErrorCode::kUserFunction && error.code != ErrorCode::kWrongShape &&
           error.code != ErrorCode::kOutOfRange;
  }

  // Whether any window takes the element at `position`; of those that are given, the ones that a resumed run does not
  // see count too.
  bool is_taken(int64_t position) const {
    const int64_t ahead = (position - start_) % shift_;
    int64_t start = position - (ahead < 0 ? ahead + shift_ : ahead);  // of the last window that starts before
    for (int64_t window = num_given_ + (start - start_) / shift_; window >= 0; --window, start -= shift_) {
      if (position - start > (size_ - 1) * stride_) return false;
      if ((position - start) % stride_ == 0) return true;
    }
    return false;
  }

  // What lies before the next window.
  void forget() {
    for (; !pieces_.empty() && pieces_.front().end() <= start_; pieces_.pop_front()) {
      held_bytes_ -= pieces_.front().block.byte_size();
    }
    while (!notes_.empty() && notes_.front() <= start_) notes_.pop_front();
  }

  // The note or error that was read, unless it had left before the state was taken.
  bool pass(Block& out) {
    const Block passing = std::exchange(passing_, Block());
    const ElementError& error = passing.errors()[0];
    const bool is_gone = notes_gone_ > 0;
    if (is_gone) {
      --notes_gone_;
    } else {
      out = error_block(schema_, context_.pool, error.error, passing.rows_per_element * size_);
      out.epoch = passing.epoch;
      // Before it, where that is the next to be read.
      out.cursor = start_ >= read_ ? make_cursor(kKind, {start_ - read_, 0, num_given_}, {passing.cursor}) : cursor();
    }
    if (!error.is_note()) {
      held_bytes_ += passing.byte_size();
      pieces_.push_back({read_++, passing});
    }
    notes_.push_back(read_);
    return !is_gone;
  }

  // Of the window that is not complete, its first error, unless it goes with its element.
  bool give_lasting_error(Block& out) {
    PieceIterator piece = pieces_.begin();
    for (int64_t position = start_; position < std::min(read_, start_ + (size_ - 1) * stride_ + 1);
         position += stride_) {
      piece = piece_of(position, piece);
      auto error = piece->block.error_at(static_cast<size_t>(position - piece->first));
      if (error == nullptr || !is_lasting(*error)) continue;
      give_error(std::move(error), piece->block, out);
      return true;
    }
    start_ += shift_;
    ++num_given_;
    return false;
  }

  // In the place of the next window.
  void give_error(std::shared_ptr<const Error> error, const Block& block, Block& out) {
    out = error_block(schema_, context_.pool, std::move(error), block.rows_per_element * size_);
    out.epoch = block.epoch;
    out.cursor = cursor();
    start_ += shift_;
    ++num_given_;
  }

  // The place before the next window, whose first element was read: its first element is read again, and the notes
  // after that are gone.
  Cursor cursor() const {
    const Piece& piece = *piece_of(start_, pieces_.begin());
    const auto gone = std::count_if(notes_.begin(), notes_.end(), [this](int64_t note) { return note > start_; });
    return make_cursor(kKind, {0, static_cast<int64_t>(gone), num_given_},
                       {piece.block.cursor.advanced_by(start_ - piece.first)});
  }

  using PieceIterator = std::deque<Piece>::const_iterator;
  static PieceIterator piece_of(int64_t position, PieceIterator piece) {
    while (piece->end() <= position) ++piece;
    return piece;
  }

  // Adds the window of the elements before `end` to `ready_`; true when a block is given first, or instead.
  bool give_window(int64_t end, Block& out) {
    const PieceIterator first = piece_of(start_, pieces_.begin());
    PieceIterator piece = first;
    for (int64_t position = start_; position < end; position += stride_) {
      piece = piece_of(position, piece);
      if (piece->block.errors().empty()) continue;
      auto error = piece->block.error_at(static_cast<size_t>(position - piece->first));
      if (error == nullptr) continue;
      if (!ready_.empty()) return deliver(out) == Poll::kBlock;
      give_error(std::move(error), piece->block, out);
      return true;
    }
    const auto rows = static_cast<size_t>((end - start_ + stride_ - 1) / stride_);
    const Block& head = first->block;
    if (!ready_.empty() &&
        (rows != ready_rows_ || head.epoch != ready_epoch_ || head.rows_per_element != ready_rows_per_element_)) {
      return deliver(out) == Poll::kBlock;
    }
    if (ready_.empty()) {
      ready_begin_ = cursor();
      ready_rows_ = rows;
      ready_epoch_ = head.epoch;
      ready_rows_per_element_ = head.rows_per_element;
    }
    piece = first;
    for (int64_t position = start_; position < end;) {
      piece = piece_of(position, piece);
      const int64_t run = stride_ == 1 ? std::min(end, piece->end()) - position : 1;
      ready_.append_range(piece->block, static_cast<size_t>(position - piece->first), static_cast<size_t>(run));
      position += run * stride_;
    }
    start_ += shift_;
    ++num_given_;
    return false;
  }

  Poll deliver(Block& out) {
    const Block elements = ready_.finish();
    out = assemble_(elements, ready_rows_);
    if (elements.origins().size() == elements.num_elements() * static_cast<size_t>(ready_rows_per_element_)) {
      out.set_origins(elements.origins());
    }
    out.rows_per_element = static_cast<int64_t>(ready_rows_) * ready_rows_per_element_;
    out.epoch = ready_epoch_;
    out.cursor = std::move(ready_begin_);
    return Poll::kBlock;
  }

  SchemaPtr schema_;
  std::unique_ptr<Stage> input_;
  const int64_t size_;
  const int64_t shift_;
  const int64_t stride_;
  const bool drop_remainder_;
  BatchStage::Assemble assemble_;
  StageContext context_;
  const int64_t most_bytes_;

  Block rest_;                // of the input, not taken in yet
  Block passing_;             // the note or error before it, to be passed on
  std::deque<Piece> pieces_;  // what the next windows take
  int64_t held_bytes_ = 0;    // of them
  BlockBuilder copier_;
  std::deque<int64_t> notes_;  // and errors that are gone: positions of the elements after them
  int64_t read_ = 0;           // elements
  bool ended_ = false;
  int64_t start_ = 0;       // of the next window
  int64_t num_given_ = 0;   // windows before that
  int64_t notes_gone_ = 0;  // when resumed: to be read again

  BlockBuilder ready_;  // the elements of some windows
  size_t ready_rows_ = 0;
  int64_t ready_epoch_ = 0;
  int64_t ready_rows_per_element_ = 1;
  Cursor ready_begin_;
};

[[noreturn]] void refuse(const std::string& message) {
  throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: {}", kName, message));
}

WindowOptions checked(int64_t size, WindowOptions options) {
  if (!options.shift) options.shift = size;
  if (size < 1) refuse(fmt::format("size must be at least 1, not {}", size));
  if (*options.shift < 1) refuse(fmt::format("shift must be at least 1, not {}", *options.shift));
  if (options.stride < 1) refuse(fmt::format("stride must be at least 1, not {}", options.stride));
  constexpr int64_t kMost = int64_t{1} << 40;
  if (size > kMost || *options.shift > kMost || options.stride > kMost / size) {
    refuse(fmt::format("size {}, shift {} and stride {} span too much", size, *options.shift, options.stride));
  }
  return options;
}

}  // namespace

WindowOperator::WindowOperator(const SchemaPtr& input, int64_t size, WindowOptions options,
                               const BatchingOptions& batches)
    : WindowOperator(input, size, options, Batching(kName, input, batches)) {}

WindowOperator::WindowOperator(SchemaPtr input, int64_t size, WindowOptions options, Batching batching)
    : StageOperator(batching.schema(batching.drop_remainder() ? size : kVaries)),
      input_schema_(std::move(input)),
      size_(size),
      options_(checked(size, options)),
      batching_(std::move(batching)) {}

std::unique_ptr<Stage> WindowOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<WindowStage>(input_schema_, schema(), open_input(inputs[0], context), size_, options_,
                                       batching_.drop_remainder(), batching_.assemble(schema(), context), context);
}

}  // namespace millrace
