#include "millrace/formats/storage/remote/remote_storage.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "millrace/formats/storage/remote/gcs_store.h"
#include "millrace/formats/storage/remote/http_store.h"
#include "millrace/formats/storage/remote/key_pattern.h"
#include "millrace/formats/storage/remote/object_folder.h"
#include "millrace/formats/storage/remote/object_list.h"
#include "millrace/formats/storage/remote/object_upload.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/remove_objects.h"
#include "millrace/formats/storage/remote/s3_store.h"
#include "millrace/formats/storage/remote/unfinished_uploads.h"
#include "millrace/formats/storage/remote/url_pattern.h"
#include "millrace/formats/storage/shown_url.h"

namespace millrace {
namespace {

// What is asked for when an object is opened.
constexpr size_t kFirstBytes = 64 << 10;

// After a listing or a search, for what is read next.
constexpr std::chrono::minutes kKept{1};

// Of all variables and the process: what is kept for one environment is of no use in another, nor in the child of a
// fork.
size_t digest_of_environment() {
  std::string all = std::to_string(::getpid());
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    all.append(*variable) += '\0';
  }
  return std::hash<std::string>()(all);
}

void require_bucket(const std::string& url, const char* why) {
  if (is_in_bucket(url)) return;
  throw ErrorException({.code = ErrorCode::kInvalidArgument, .message = why, .shard = shown_url(url)});
}

}  // namespace

// What handles of one object have in common.
struct RemoteObject {
  std::string url = {};
  std::shared_ptr<ObjectStore> store = {};
  std::string listed_as = {};  // empty: no listing has named it
  ObjectVersion version = {};
  std::vector<std::byte> first_bytes = {};  // for the first read at the beginning

  std::atomic<bool> has_changed = false;  // an answer was of another version: handles from now on begin anew

  std::mutex mutex = {};
  std::string target = {};  // where it was redirected to
};

class RemoteStorage::Shared {
 public:
  explicit Shared(RemoteOptions options) : options_(std::move(options)) {
    if (options_.listed == nullptr) options_.listed = ListedObjects::of_process();
  }

  std::shared_ptr<ObjectStore> store(const std::string& url) {
    if (is_in_bucket(url)) return buckets(url);
    static const auto http = std::make_shared<HttpStore>();
    return http;
  }
  // That of the scheme of a URL.
  std::shared_ptr<BucketStore> buckets(const std::string& url) {
    if (!is_gcs_url(url)) return s3();
    const HttpCalls calls = this->calls("gs://");
    const std::lock_guard lock(mutex_);
    if (gcs_ == nullptr) gcs_ = std::make_shared<GcsStore>(options_.gcs, calls, options_.environment);
    return gcs_;
  }
  std::shared_ptr<S3Store> s3() {
    const HttpCalls calls = this->calls("s3://");
    const std::lock_guard lock(mutex_);
    if (s3_ == nullptr) s3_ = std::make_shared<S3Store>(options_.s3, calls, options_.environment);
    return s3_;
  }
  ListedObjects& listed() { return *options_.listed; }

  HttpCalls calls(const std::string& url) {
    const std::lock_guard lock(mutex_);
    if (options_.engine == nullptr) options_.engine = HttpEngine::of_process();
    std::shared_ptr<RetryBudget>& budget = budgets_[origin_of(url)];
    if (budget == nullptr) budget = std::make_shared<RetryBudget>();
    return {.engine = options_.engine, .budget = budget, .retries = options_.retries};
  }
  const RemoteOptions& options() const { return options_; }

  // The object of handles that are open, or null.
  std::shared_ptr<RemoteObject> known(const std::string& url) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(url);
    std::shared_ptr<RemoteObject> object = found == objects_.end() ? nullptr : found->second.lock();
    return object == nullptr || object->has_changed ? nullptr : object;
  }
  // Handles that are opened from now on begin anew.
  void forget(const std::string& url) {
    listed().forget(listed_name(*buckets(url), url));
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(url);
    if (found == objects_.end()) return;
    if (const auto object = found->second.lock()) object->has_changed = true;
  }
  // Of two that were opened at a time the first one stays.
  std::shared_ptr<RemoteObject> keep(std::shared_ptr<RemoteObject> object) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<RemoteObject>& place = objects_[object->url];
    if (std::shared_ptr<RemoteObject> earlier = place.lock(); earlier != nullptr && !earlier->has_changed)
      return earlier;
    place = object;
    if (objects_.size() > most_objects_) {
      std::erase_if(objects_, [](const auto& entry) { return entry.second.expired(); });
      most_objects_ = std::max(kFewObjects, 2 * objects_.size());
    }
    return object;
  }

 private:
  static constexpr size_t kFewObjects = 64;

  RemoteOptions options_;
  std::mutex mutex_;
  std::shared_ptr<S3Store> s3_;                                  // null: nobody has asked for one
  std::shared_ptr<GcsStore> gcs_;                                // the same
  std::map<std::string, std::shared_ptr<RetryBudget>> budgets_;  // of hosts and buckets
  std::map<std::string, std::weak_ptr<RemoteObject>> objects_;
  // Where there are more, those that nobody has any more go. Twice what was left then: looking through all of them for
  // each that is opened would take the square of their number.
  size_t most_objects_ = kFewObjects;
};

class RemoteFile final : public File, public std::enable_shared_from_this<RemoteFile> {
 public:
  RemoteFile(std::shared_ptr<RemoteObject> object, HttpCalls calls, const RemoteOptions& options)
      : object_(std::move(object)),
        calls_(std::move(calls)),
        advice_(options.advice),
        hedges_(options.hedges_reads),
        listed_(options.listed) {}

  uint64_t size() const override { return object_->version.size; }
  std::string version() const override { return object_->version.to_string(); }
  ReadAdvice advice() const override { return advice_; }

  void read(uint64_t offset, std::span<std::byte> destination, std::shared_ptr<ReadSink> sink) override {
    if (offset >= size()) return sink->read_done({});
    const std::vector<std::byte>& first = object_->first_bytes;
    if (offset < first.size()) {
      const size_t bytes = std::min<size_t>(destination.size(), first.size() - offset);
      std::memcpy(destination.data(), first.data() + offset, bytes);
      return sink->read_done({.bytes = bytes});
    }
    const uint64_t left = size() - offset;
    if (destination.size() > left) destination = destination.first(left);
    std::string target;
    {
      const std::lock_guard lock(object_->mutex);
      target = object_->target;
    }
    auto call = read_object(calls_,
                            {.store = object_->store,
                             .url = object_->url,
                             .target = std::move(target),
                             .offset = offset,
                             .into = destination,
                             .pin = object_->version,
                             .may_be_hedged = hedges_},
                            [self = shared_from_this(), sink = std::move(sink)](ObjectAnswer answer) {
                              self->answered(std::move(answer), *sink);
                            });
    bool is_cancelled;
    {
      const std::lock_guard lock(mutex_);
      is_cancelled = is_cancelled_;
      call_ = call;
    }
    if (is_cancelled) call->cancel();
  }

  void cancel() override {
    std::shared_ptr<RetriedCall> call;
    {
      const std::lock_guard lock(mutex_);
      is_cancelled_ = true;
      call = call_.lock();
    }
    if (call != nullptr) call->cancel();
  }

 private:
  void answered(ObjectAnswer answer, ReadSink& sink) noexcept {
    {
      const std::lock_guard lock(object_->mutex);
      object_->target = std::move(answer.target);
    }
    if (answer.is_changed) object_->has_changed = true;
    if (answer.is_changed && !object_->listed_as.empty()) listed_->forget(object_->listed_as);
    if (answer.error) {
      sink.read_done({.ok = false, .error = std::move(*answer.error)});
    } else {
      sink.read_done({.bytes = answer.bytes});
    }
  }

  const std::shared_ptr<RemoteObject> object_;
  const HttpCalls calls_;
  const ReadAdvice advice_;
  const bool hedges_;
  const std::shared_ptr<ListedObjects> listed_;
  std::mutex mutex_;
  bool is_cancelled_ = false;  // whoever cancels one read wants no other
  std::weak_ptr<RetriedCall> call_;
};

RemoteStorage::RemoteStorage(RemoteOptions options) : shared_(std::make_shared<Shared>(std::move(options))) {}
RemoteStorage::~RemoteStorage() = default;

std::shared_ptr<RemoteStorage> RemoteStorage::of_process() {
  static std::mutex mutex;
  static std::weak_ptr<RemoteStorage> known;
  static size_t environment = 0;
  const size_t now = digest_of_environment();
  const std::lock_guard lock(mutex);
  std::shared_ptr<RemoteStorage> storage = known.lock();
  if (storage == nullptr || environment != now) known = storage = std::make_shared<RemoteStorage>();
  environment = now;
  return storage;
}

std::vector<std::string> RemoteStorage::glob_of_process(const std::string& pattern, const GlobProgress& progress) {
  const std::shared_ptr<RemoteStorage> storage = of_process();
  std::vector<std::string> urls = storage->glob(pattern, progress);
  if (is_in_bucket(pattern)) storage->shared_->calls(pattern).engine->call_after(kKept, [storage] {});
  return urls;
}

std::vector<std::string> RemoteStorage::located_of_process(std::vector<std::string> paths) {
  if (std::ranges::none_of(paths, is_in_bucket)) return paths;
  const std::shared_ptr<RemoteStorage> storage = of_process();
  const std::vector<std::shared_ptr<File>> opened = locate_in_folders(*storage, paths);
  if (!opened.empty()) storage->shared_->calls("s3://").engine->call_after(kKept, [storage, opened] {});
  return paths;
}

std::string RemoteStorage::identity(const std::string& url) {
  try {
    return is_in_bucket(url) ? listed_name(*shared_->buckets(url), url) : url;
  } catch (const ErrorException&) {
    return url;  // of wrong options whoever opens it is told
  }
}

std::optional<uint64_t> RemoteStorage::listed_size(const std::string& url) {
  if (!is_in_bucket(url)) return std::nullopt;
  const auto version = shared_->listed().find(listed_name(*shared_->buckets(url), url));
  return version ? std::optional<uint64_t>(version->size) : std::nullopt;
}

void RemoteStorage::open(const std::string& path, std::shared_ptr<OpenSink> sink) {
  const HttpCalls calls = shared_->calls(path);
  const auto give = [shared = shared_, calls, sink](std::shared_ptr<RemoteObject> object) {
    sink->open_done({.file = std::make_shared<RemoteFile>(std::move(object), calls, shared->options())});
  };
  if (auto object = shared_->known(path)) return give(std::move(object));
  try {
    auto object = std::make_shared<RemoteObject>();
    object->url = path;
    object->store = shared_->store(path);
    if (is_in_bucket(path)) {
      const std::string name = listed_name(*shared_->buckets(path), path);
      if (auto version = shared_->listed().find(name)) {
        object->listed_as = name;
        object->version = std::move(*version);
        return give(shared_->keep(std::move(object)));
      }
    }
    object->first_bytes.resize(kFirstBytes);
    ObjectRequest request{.store = object->store,
                          .url = path,
                          .into = object->first_bytes,
                          .may_be_hedged = shared_->options().hedges_reads};
    const auto done = [shared = shared_, give, object, sink](ObjectAnswer answer) {
      if (answer.error) return sink->open_done({.error = std::move(*answer.error)});
      object->version = answer.version.value_or(ObjectVersion{});
      object->target = std::move(answer.target);
      object->first_bytes.resize(answer.bytes);
      give(shared->keep(object));
    };
    static_cast<void>(read_object(calls, std::move(request), done));
  } catch (const ErrorException& exception) {  // before anybody was asked
    StorageError error{.error = exception.error()};
    error.error.shard = shown_url(path);
    sink->open_done({.error = std::move(error)});
  }
}

std::unique_ptr<OutputFile> RemoteStorage::create(const std::string& url, const OutputOptions& options) {
  require_bucket(url, "cannot write it: only objects in buckets are written, s3:// and gs://");
  try {
    const auto changed = [shared = shared_, url] { shared->forget(url); };
    return std::make_unique<ObjectUpload>(url, shared_->buckets(url)->upload(shared_->calls(url), url, options),
                                          changed);
  } catch (const ErrorException& exception) {  // nobody was asked yet
    Error error = exception.error();
    error.shard = url;
    throw ErrorException(std::move(error));
  }
}

std::vector<UnfinishedUpload> RemoteStorage::unfinished_uploads(const std::string& prefix,
                                                                std::chrono::seconds older_than) {
  if (!prefix.starts_with("s3://")) {
    const char* const why = is_gcs_url(prefix) ? "uploads that nobody completes end by themselves after a week"
                                               : "only S3 has uploads that nobody completes";
    throw ErrorException({.code = ErrorCode::kInvalidArgument, .message = why, .shard = shown_url(prefix)});
  }
  return list_unfinished_uploads(shared_->calls(prefix), *shared_->s3(), prefix, older_than);
}

void RemoteStorage::abort_upload(const UnfinishedUpload& upload) {
  abort_unfinished_upload(shared_->calls(upload.url), *shared_->s3(), upload);
}

std::vector<std::string> RemoteStorage::list(const std::string& prefix) {
  require_bucket(prefix, "cannot list it: only buckets have listings, s3:// and gs://");
  return list_all(shared_->calls(prefix), *shared_->buckets(prefix), prefix);
}

std::vector<std::string> RemoteStorage::plain_names_in(const std::string& folder) {
  require_bucket(folder, "cannot list it: only buckets have listings, s3:// and gs://");
  const std::string prefix = folder + '/';
  std::vector<std::string> names;
  for (const std::string& url : glob_bucket(shared_->calls(folder), *shared_->buckets(folder),
                                            KeyPattern::escaped(prefix) + '*', shared_->listed())) {
    names.push_back(url.substr(prefix.size()));
    if (names.back().ends_with('/')) names.back().pop_back();
  }
  return names;
}

void RemoteStorage::remove(const std::vector<std::string>& urls) {
  if (urls.empty()) return;
  for (const std::string& url : urls)
    require_bucket(url, "cannot remove it: only objects in buckets are, s3:// and gs://");
  remove_objects(shared_->calls(urls[0]), *shared_->buckets(urls[0]), urls);
  for (const std::string& url : urls) forget(url);
}

std::optional<ObjectNow> RemoteStorage::look(const std::string& url, size_t most_bytes) {
  require_bucket(url, "only objects in buckets are looked at");
  return look_at_object(shared_->calls(url), *shared_->buckets(url), url, most_bytes);
}

bool RemoteStorage::keeps_if_absent(const std::string& url) {
  require_bucket(url, "only buckets have conditions");
  return shared_->buckets(url)->keeps_if_absent();
}

bool RemoteStorage::keeps_if_version(const std::string& url) {
  require_bucket(url, "only buckets have conditions");
  return shared_->buckets(url)->keeps_if_version();
}

void RemoteStorage::forget(const std::string& url) {
  if (is_in_bucket(url)) shared_->forget(url);
}

std::vector<std::string> RemoteStorage::glob(const std::string& pattern, const GlobProgress& progress) {
  if (!is_in_bucket(pattern)) return expand_url(pattern);
  std::vector<std::string> urls =
      glob_bucket(shared_->calls(pattern), *shared_->buckets(pattern), pattern, shared_->listed(), progress);
  return urls.empty() ? glob_in_folders(*this, pattern) : urls;
}

}  // namespace millrace
