#include "millrace/formats/storage/remote/object_lock.h"

#include <ctime>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/error.h"
#include "millrace/formats/json/names.h"
#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/process_identity.h"
#include "millrace/formats/storage/remote/folder_manifest.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/utf8.h"

namespace millrace {
namespace {

using Json = nlohmann::json;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

int64_t wall_seconds() { return duration_cast<seconds>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Also while the machine sleeps.
std::chrono::nanoseconds since_start() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// What the object says.
struct Holder {
  std::string id = {};
  ProcessIdentity process = {};
  int64_t renewed = 0;  // seconds since 1970, by the clock of its process

  [[nodiscard]] std::string to_text() const {
    return json_line(Json{{"id", id},
                          {"host", process.host},
                          {"process", process.process},
                          {"started", process.started},
                          {"machine", process.machine},
                          {"renewed", renewed}}) +
           "\n";
  }
};

// Whatever is not there is empty: an object that somebody has put there in its place is a lock, too.
Holder holder_in(const std::string& text) {
  Holder holder;
  try {
    const Json json = parse_json<Json>(text, "");
    holder.id = json.at("id").get<std::string>();
    holder.process = {.host = json.at("host").get<std::string>(),
                      .process = json.at("process").get<int>(),
                      .started = json.at("started").get<std::string>(),
                      .machine = json.at("machine").get<std::string>()};
    holder.renewed = json.at("renewed").get<int64_t>();
  } catch (const std::exception&) {
  }
  return holder;
}

milliseconds age_of(const ObjectNow& now, const Holder& holder) {
  return now.age ? milliseconds(*now.age) : milliseconds(seconds(wall_seconds() - holder.renewed));
}

}  // namespace

ObjectLock::ObjectLock(std::string url, std::string doing, ObjectLockOptions options)
    : url_(std::move(url)),
      doing_(std::move(doing)),
      options_(std::move(options)),
      id_(make_folder_id()),
      storage_(RemoteStorage::of_process()) {
  renewed_at_ = since_start();
  take();
  thread_ = std::thread([this] { run(); });
}

ObjectLock::~ObjectLock() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    ends_changed_.notify_all();
  }
  thread_.join();
  if (!lost_.empty()) return;
  try {
    const std::optional<ObjectNow> now = storage_->look(url_);
    if (now && holder_in(now->bytes).id == id_) storage_->remove({url_});
  } catch (const ErrorException&) {  // it is broken in five minutes
  }
}

void ObjectLock::require_held() {
  renew();
  const std::lock_guard lock(mutex_);
  const bool is_stale = since_start() - renewed_at_ >= options_.breaks_after;
  const std::string why =
      lost_.empty() && is_stale ? "the lock could not be renewed: another process may have taken it" : lost_;
  if (!why.empty()) throw ErrorException({.code = ErrorCode::kIo, .message = why, .shard = url_});
}

bool ObjectLock::is_lost() const {
  const std::lock_guard lock(mutex_);
  return !lost_.empty();
}

void ObjectLock::take() {
  if (const std::optional<ObjectNow> held = storage_->look(url_)) {
    take_from(*held);
    if (!storage_->keeps_if_version(url_)) {
      tell(fmt::format(
          "{}: the store does not look at If-Match: of two that take a lock that was left neither may notice "
          "the other",
          url_));
    }
  } else {
    write("");
  }
  check_conditions();
}

// Waits until it is clear whether somebody is at it.
void ObjectLock::take_from(const ObjectNow& held) {
  const Holder holder = holder_in(held.bytes);
  std::optional<ObjectNow> now = held;
  bool told = false;
  while (now && now->bytes == held.bytes) {
    const milliseconds age = age_of(*now, holder);
    const std::optional<bool> has_ended = holder.process.has_ended();
    if (has_ended && !*has_ended) refuse(holder.process.to_string());
    if (has_ended || age >= options_.breaks_after) return write(now->version);
    if (!options_.waits) {
      refuse(fmt::format("{}, who has renewed its lock {} s ago; one of {} s is broken", holder.process.to_string(),
                         duration_cast<seconds>(age).count(), duration_cast<seconds>(options_.breaks_after).count()));
    }
    if (!std::exchange(told, true)) {
      tell(fmt::format("{} is held by {}, renewed {} s ago: waiting until it is renewed or {} s old", url_,
                       holder.process.to_string(), duration_cast<seconds>(age).count(),
                       duration_cast<seconds>(options_.breaks_after).count()));
    }
    std::this_thread::sleep_for(std::min(options_.look_every, options_.breaks_after - age));
    now = storage_->look(url_);
  }
  if (now) refuse(holder_in(now->bytes).process.to_string());
  write("");
}

// `replaced`: the version of what is there; empty: there is nothing.
void ObjectLock::write(const std::string& replaced) {
  std::optional<Error> error;
  try {
    put({.if_absent = replaced.empty(), .if_version = replaced});
  } catch (const ErrorException& exception) {
    error = exception.error();
  }
  // Also where it was written: a store without conditions writes it over another one's.
  const std::optional<ObjectNow> now = storage_->look(url_);
  if (now && holder_in(now->bytes).id == id_) return;
  if (now && (replaced.empty() || now->version != replaced)) refuse(holder_in(now->bytes).process.to_string());
  if (error) throw ErrorException(*std::move(error));
  throw ErrorException({.code = ErrorCode::kIo, .message = "it was written, and is not there", .shard = url_});
}

// One that is written where it is already, unless the store has said that it implements no such condition.
void ObjectLock::check_conditions() {
  try {
    if (storage_->keeps_if_absent(url_)) put({.if_absent = true});
  } catch (const ErrorException&) {
    return;
  }
  tell(
      fmt::format("{}: the store does not look at If-None-Match: of two that begin here in the same moment neither may "
                  "notice the other",
                  url_));
}

void ObjectLock::run() {
  std::unique_lock lock(mutex_);
  while (!ends_changed_.wait_for(lock, options_.renew_every, [this] { return ends_; })) {
    lock.unlock();
    renew();
    lock.lock();
    if (!lost_.empty()) return;
  }
}

// One that fails is made up for by the next: others wait longer.
void ObjectLock::renew() {
  const std::lock_guard one_at_a_time(renewing_);
  if (is_lost()) return;
  std::string lost;
  try {
    const std::optional<ObjectNow> now = storage_->look(url_);
    if (now && holder_in(now->bytes).id == id_) {
      const std::chrono::nanoseconds at = since_start();
      put({.if_version = now->version});
      const std::lock_guard lock(mutex_);
      renewed_at_ = at;
      return;
    }
    lost = now ? "another process has taken the lock: " + holder_in(now->bytes).process.to_string()
               : "somebody has removed the lock";
  } catch (const ErrorException&) {
    return;
  }
  const std::lock_guard lock(mutex_);
  lost_ = std::move(lost);
}

void ObjectLock::put(const OutputOptions& options) const {
  const Holder own{.id = id_, .process = ProcessIdentity::own(), .renewed = wall_seconds()};
  const auto file = storage_->create(url_, options);
  file->write(own.to_text());
  file->commit();
}

void ObjectLock::tell(const std::string& line) const {
  if (options_.tell) options_.tell(line);
}

void ObjectLock::refuse(const std::string& holder) const {
  throw ErrorException({.code = ErrorCode::kInvalidArgument,
                        .message = fmt::format("another process is {} it: {}", doing_, holder),
                        .shard = url_});
}

}  // namespace millrace
