#include "millrace/formats/storage/remote/object_upload.h"

#include <algorithm>
#include <utility>

namespace millrace {

ObjectUpload::ObjectUpload(std::string url, std::unique_ptr<StoreUpload> upload, std::function<void()> changed)
    : OutputFile(std::move(url)),
      changed_(std::move(changed)),
      upload_(std::move(upload)),
      part_bytes_(upload_->part_bytes()) {}

ObjectUpload::~ObjectUpload() {
  if (upload_ != nullptr) upload_->abort();
}

void ObjectUpload::write(std::string_view bytes) {
  require_open();
  while (!bytes.empty()) {
    // Only when more comes: the last part has bytes, and what is as long as one part is one request.
    if (part_.size() == part_bytes_) send();
    const size_t fits = std::min(bytes.size(), part_bytes_ - part_.size());
    make_room(fits);
    part_.append(bytes.substr(0, fits));
    bytes.remove_prefix(fits);
  }
}

void ObjectUpload::commit() {
  require_open();
  auto last = std::make_shared<const std::string>(std::move(part_));
  try {
    attempt([&] { has_parts_ ? upload_->finish(std::move(last)) : upload_->put(std::move(last)); });
  } catch (...) {
    changed_();
    throw;
  }
  upload_.reset();
  changed_();
}

void ObjectUpload::require_open() const {
  if (process_ != ::getpid()) throw upload_error(path_, "another process began it, which this one was forked from");
  if (upload_ == nullptr) throw upload_error(path_, "it was committed, or failed before");
}

// No buffer is larger than a part: a small object takes little, and what goes beyond half of a part will mostly fill
// it.
void ObjectUpload::make_room(size_t bytes) {
  const size_t needed = part_.size() + bytes;
  if (needed <= part_.capacity()) return;
  part_.reserve(has_parts_ || needed > part_bytes_ / 2 ? part_bytes_ : std::max(needed, 2 * part_.capacity()));
}

void ObjectUpload::send() {
  auto part = std::make_shared<const std::string>(std::move(part_));
  part_ = {};
  has_parts_ = true;
  attempt([&] { upload_->add(std::move(part)); });
}

template <typename Step>
void ObjectUpload::attempt(Step step) {
  try {
    step();
  } catch (...) {
    may_be_there_ = upload_->may_be_there();
    upload_->abort();
    upload_.reset();
    throw;
  }
}

}  // namespace millrace
