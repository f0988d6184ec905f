#include "millrace/formats/tfrecord/index/piece_read.h"

#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace millrace {

void PieceInbox::expect() {
  const std::lock_guard lock(mutex_);
  done_.reserve(num_expected_ + 1);
  ++num_expected_;
}

void PieceInbox::put(std::shared_ptr<PieceRead> read) noexcept {
  bool waiting;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    done_.push_back(std::move(read));
    waiting = std::exchange(waiting_, false);
  }
  if (waiting) wake_.call();
}

bool PieceInbox::take(std::vector<std::shared_ptr<PieceRead>>& done, bool waits) {
  const std::lock_guard lock(mutex_);
  done.assign(std::make_move_iterator(done_.begin()), std::make_move_iterator(done_.end()));
  num_expected_ -= done_.size();
  done_.clear();
  waiting_ = waits && done.empty();
  return !done.empty();
}

void PieceInbox::close() {
  wake_.close();
  const std::lock_guard lock(mutex_);
  closed_ = true;
  done_.clear();
}

bool PieceInbox::closed() {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void PieceRead::start(Storage& storage, const std::string& path, std::shared_ptr<RangeReader> open_file) {
  if (open_file == nullptr) return open_with_retries(storage, path, kDefaultMaxAttempts, shared_from_this());
  file = std::move(open_file);
  file->read(piece.begin, destination(), shared_from_this());
}

void PieceRead::cancel() {
  std::shared_ptr<RangeReader> reading;
  {
    const std::lock_guard lock(mutex_);
    reading = file;
  }
  if (reading != nullptr) reading->file().cancel();
}

void PieceRead::open_done(OpenResult result) noexcept {
  if (!result.file) return finish(std::move(result.error.error));
  try {
    read(std::move(result.file));
  } catch (...) {
    finish(current_exception_as_error());
  }
}

void PieceRead::read(std::shared_ptr<File> opened) {
  if (const uint64_t found = opened->size(); found != bytes_of_file_) {
    return finish(Error{.code = ErrorCode::kIndex,
                        .message = fmt::format("the index does not belong to this file: it was made of {} bytes, "
                                               "the file has {}",
                                               bytes_of_file_, found)});
  }
  auto reader = std::make_shared<RangeReader>(std::move(opened));
  {
    const std::lock_guard lock(mutex_);
    file = reader;
  }
  if (inbox_->closed()) return;
  reader->read(piece.begin, destination(), shared_from_this());
}

void PieceRead::read_done(ReadResult result) noexcept {
  if (!result.ok) {
    finish(std::move(result.error.error));
  } else if (result.bytes < destination().size()) {
    try {
      finish(shrunken_file("", bytes_of_file_, piece.begin + result.bytes));
    } catch (...) {
      finish(current_exception_as_error());
    }
  } else {
    inbox_->put(shared_from_this());
  }
}

void PieceRead::finish(Error what) noexcept {
  error = std::move(what);
  inbox_->put(shared_from_this());
}

}  // namespace millrace
