#include "tests/formats/storage/remote/object_server.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include <boost/asio.hpp>
#include <fmt/format.h>

#include "millrace/formats/text/lower_case.h"
#include "tests/formats/storage/remote/accepting_thread.h"
#include "tests/formats/storage/remote/s3_service.h"
#include "tests/formats/storage/remote/s3_uploads.h"
#include "tests/support/packed.h"

namespace millrace::test {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Kind = ServedFault::Kind;

constexpr size_t kPiece = 64 << 10;      // of a body whose rate is limited
constexpr size_t kMostKept = 64 << 10;   // of the body of a request
constexpr size_t kReadPiece = 1 << 20;   // of one that is read
constexpr int kPacedBuffer = 128 << 10;  // of the system, where bodies are not to be read at once

struct Object {
  std::shared_ptr<const std::string> content;
  std::string tag;
  std::string date;
  std::map<std::string, std::string> metadata = {};
};

// When so many bytes may be sent, of a rate that nobody saves up.
class RateLimit {
 public:
  explicit RateLimit(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}
  Clock::time_point take(size_t bytes, Clock::time_point now) {
    if (bytes_per_second_ <= 0) return now;
    free_at_ = std::max(free_at_, now) + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                                             static_cast<double>(bytes) / bytes_per_second_));
    return free_at_;
  }

 private:
  double bytes_per_second_;
  Clock::time_point free_at_{};
};

struct Answer {
  std::string head = {};
  std::shared_ptr<const std::string> content = std::make_shared<std::string>();
  size_t begin = 0;
  size_t end = 0;
  std::optional<size_t> ends_after = {};  // bytes of the body; then `how`
  enum class End { kKeep, kClose, kReset, kStall } how = End::kKeep;
};

}  // namespace

class ObjectServer::Server {
 public:
  explicit Server(ObjectServerOptions options)
      : options_(std::move(options)),
        all_(options_.all_bytes_per_second),
        uploads_(options_.s3 ? options_.s3->most_uploads : 0, !options_.s3 || options_.s3->keeps_metadata) {
    thread_.start([this](tcp::socket socket) { serve(std::move(socket)); });
  }

  uint16_t port() const { return thread_.port(); }

  void put(const std::string& name, std::string content) {
    const std::lock_guard lock(mutex_);
    store("/" + name, {.content = std::make_shared<const std::string>(std::move(content)), .tag = "", .metadata = {}});
  }
  void remove(const std::string& name) {
    const std::lock_guard lock(mutex_);
    objects_.erase("/" + name);
  }
  std::optional<std::string> content(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find("/" + name);
    if (found == objects_.end()) return std::nullopt;
    return *found->second.content;
  }
  std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [path, object] : objects_) names.push_back(path.substr(1));
    return names;
  }
  std::vector<std::string> unfinished_uploads() const {
    const std::lock_guard lock(mutex_);
    return uploads_.unfinished();
  }
  std::vector<ServedRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  size_t most_in_flight() const {
    const std::lock_guard lock(mutex_);
    return most_in_flight_;
  }
  size_t in_flight() const {
    const std::lock_guard lock(mutex_);
    return in_flight_;
  }

 private:
  class Connection;

  void serve(tcp::socket socket);

  ServedFault note(ServedRequest& request) {
    {
      const std::lock_guard lock(mutex_);
      request.number = requests_.size();
      requests_.push_back(request);
      most_in_flight_ = std::max(most_in_flight_, ++in_flight_);
    }
    return options_.fault ? options_.fault(request) : ServedFault();
  }
  void note_body(const ServedRequest& request) {
    if (request.body.size() > kMostKept) return;
    const std::lock_guard lock(mutex_);
    requests_[request.number].body = request.body;
  }
  // Under the lock.
  void store(const std::string& path, StoredObject stored) {
    const int number = ++num_puts_;
    objects_[path] = {.content = std::move(stored.content),
                      .tag = stored.tag.empty() ? fmt::format("tag-{}", number) : std::move(stored.tag),
                      .date = fmt::format("Sat, 28 Nov 2026 00:00:{:02} GMT", number % 60),
                      .metadata = std::move(stored.metadata)};
  }
  std::optional<ServedFault> write(const ServedRequest& request) {
    const std::lock_guard lock(mutex_);
    return uploads_.answer(
        request, s3_path(request),
        {.tag = [this](const std::string& path) -> std::optional<std::string> {
           const auto found = objects_.find(path);
           return found == objects_.end() ? std::nullopt : std::optional(found->second.tag);
         },
         .store = [this](const std::string& path, StoredObject stored) { store(path, std::move(stored)); },
         .remove = [this](const std::string& path) { objects_.erase(path); }});
  }
  void note_end() {
    const std::lock_guard lock(mutex_);
    --in_flight_;
  }
  std::optional<Object> object(const ServedRequest& request) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(s3_path(request));
    if (found == objects_.end()) return std::nullopt;
    return found->second;
  }
  std::optional<ListedEntry> next_entry(const std::string& bucket, const std::string& from) const {
    const std::string folder = "/" + bucket + "/";
    const std::lock_guard lock(mutex_);
    const auto found = objects_.lower_bound(folder + from);
    if (found == objects_.end() || !found->first.starts_with(folder)) return std::nullopt;
    return ListedEntry{
        .key = found->first.substr(folder.size()), .tag = found->second.tag, .size = found->second.content->size()};
  }
  Answer answer(const ServedRequest& request, const ServedFault& fault);
  Answer whole_answer(const ServedRequest& request, const ServedFault& fault);

  const ObjectServerOptions options_;
  RateLimit all_;

  mutable std::mutex mutex_;
  std::map<std::string, Object> objects_;
  S3Uploads uploads_;
  std::vector<ServedRequest> requests_;
  size_t in_flight_ = 0;
  size_t most_in_flight_ = 0;
  int num_puts_ = 0;

  AcceptingThread thread_;
};

// One connection: a request, its answer, the next one.
class ObjectServer::Server::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Server& server, tcp::socket socket)
      : server_(server),
        socket_(std::move(socket)),
        timer_(socket_.get_executor()),
        rate_(server_.options_.bytes_per_second) {}

  void read_request() {
    asio::async_read_until(socket_, asio::dynamic_buffer(input_), "\r\n\r\n",
                           [self = shared_from_this()](const error_code& error, size_t bytes) {
                             if (!error) self->parse(bytes);
                           });
  }

 private:
  void parse(size_t head_bytes) {
    ServedRequest request;
    std::string head = input_.substr(0, head_bytes);
    input_.erase(0, head_bytes);
    size_t begin = head.find("\r\n");
    const std::string line = head.substr(0, begin);
    request.method = line.substr(0, line.find(' '));
    request.path = line.substr(request.method.size() + 1);
    request.path.resize(request.path.rfind(' '));
    for (begin += 2; head.compare(begin, 2, "\r\n") != 0;) {
      const size_t end = head.find("\r\n", begin);
      const size_t colon = head.find(':', begin);
      request.headers[lower_case(head.substr(begin, colon - begin))] = head.substr(colon + 2, end - colon - 2);
      begin = end + 2;
    }
    const auto length = request.headers.find("content-length");
    if (length != request.headers.end()) request.body_bytes = std::stoul(length->second);
    fault_ = server_.note(request);
    request_ = std::move(request);
    if (request_.body_bytes == 0) return act();
    if (fault_.kind == Kind::kStallUpload) return hold();
    if (fault_.kind == Kind::kStatusBeforeUpload) {
      fault_.kind = Kind::kStatus;
      answer_ = server_.answer(request_, fault_);
      answer_.how = Answer::End::kClose;
      return write_head();
    }
    if (fault_.kind == Kind::kInterimBeforeUpload) {
      asio::write(socket_, asio::buffer(std::string("HTTP/1.1 102 Processing\r\n\r\n")));
    }
    if (server_.options_.upload_pace) socket_.set_option(asio::socket_base::receive_buffer_size(kPacedBuffer));
    read_body();
  }

  void read_body() {
    const size_t stop = fault_.kind == Kind::kResetInUpload ? request_.body_bytes / 2 : request_.body_bytes;
    if (input_.size() >= stop) {
      if (fault_.kind == Kind::kResetInUpload || fault_.kind == Kind::kResetAfterUpload) return reset();
      request_.body = input_.substr(0, request_.body_bytes);
      input_.erase(0, request_.body_bytes);
      server_.note_body(request_);
      return act();
    }
    size_t most = std::min(stop - input_.size(), kReadPiece);
    if (server_.options_.upload_pace) most = std::min(most, server_.options_.upload_pace(request_, input_.size()));
    if (most == 0) return again_soon(&Connection::read_body);
    const size_t before = input_.size();
    input_.resize(before + most);
    socket_.async_read_some(asio::buffer(input_.data() + before, most),
                            [self = shared_from_this(), before](const error_code& error, size_t bytes) {
                              self->input_.resize(before + bytes);
                              if (error) return self->end();
                              self->read_body();
                            });
  }

  void act() {
    answer_ = server_.answer(request_, fault_);
    request_.body.clear();
    if (fault_.kind == Kind::kStallBeforeHead) return wait_for_close();
    if (fault_.kind == Kind::kResetBeforeHead) return reset();
    timer_.expires_after(server_.options_.first_byte);
    timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->write_head();
    });
  }

  void write_head() {
    if (fault_.kind == Kind::kResetInHead) answer_.head.resize(answer_.head.size() / 2);
    asio::async_write(socket_, asio::buffer(answer_.head),
                      [self = shared_from_this()](const error_code& error, size_t) {
                        if (error) return self->end();
                        if (self->fault_.kind == Kind::kResetInHead) return self->reset();
                        self->write_body(self->answer_.begin);
                      });
  }

  void write_body(size_t place) {
    const size_t stop = answer_.ends_after ? answer_.begin + *answer_.ends_after : answer_.end;
    if (place >= stop) return finish();
    const size_t bytes = std::min(stop - place, kPiece);
    const Clock::time_point now = Clock::now();
    timer_.expires_at(std::max(rate_.take(bytes, now), server_.all_.take(bytes, now)));
    timer_.async_wait([self = shared_from_this(), place, bytes](const error_code& error) {
      if (error) return self->end();
      asio::async_write(self->socket_, asio::buffer(self->answer_.content->data() + place, bytes),
                        [self, place, bytes](const error_code& failed, size_t) {
                          if (failed) return self->end();
                          self->write_body(place + bytes);
                        });
    });
  }

  void finish() {
    switch (answer_.how) {
      case Answer::End::kKeep: end(); return read_request();
      case Answer::End::kClose: end(); return socket_.close();
      case Answer::End::kReset: return reset();
      case Answer::End::kStall: return fault_.goes_on ? wait_to_go_on() : wait_for_close();
    }
  }
  void wait_to_go_on() {
    if (fault_.goes_on()) {
      answer_.how = Answer::End::kKeep;
      return write_body(answer_.begin + *std::exchange(answer_.ends_after, std::nullopt));
    }
    again_soon(&Connection::wait_to_go_on);
  }
  void again_soon(void (Connection::*step)()) {
    timer_.expires_after(std::chrono::milliseconds(1));
    timer_.async_wait([self = shared_from_this(), step](const error_code& error) {
      if (!error) (*self.*step)();
    });
  }

  void reset() {
    end();
    socket_.set_option(asio::socket_base::linger(true, 0));
    socket_.close();
  }
  // Until the other side has enough of it.
  void wait_for_close() {
    asio::async_read(socket_, asio::dynamic_buffer(input_),
                     [self = shared_from_this()](const error_code&, size_t) { self->end(); });
  }
  // The same, and reads nothing.
  void hold() {
    socket_.async_wait(tcp::socket::wait_error, [self = shared_from_this()](const error_code&) { self->end(); });
  }
  void end() { server_.note_end(); }

  Server& server_;  // whose context owns this
  tcp::socket socket_;
  asio::steady_timer timer_;
  RateLimit rate_;
  std::string input_;
  ServedRequest request_;
  ServedFault fault_;
  Answer answer_;
};

void ObjectServer::Server::serve(tcp::socket socket) {
  socket.set_option(tcp::no_delay(true));
  std::make_shared<Connection>(*this, std::move(socket))->read_request();
}

Answer ObjectServer::Server::answer(const ServedRequest& request, const ServedFault& fault) {
  Answer answer = whole_answer(request, fault);
  if (request.method == "HEAD") answer.end = answer.begin;
  if (fault.kind == Kind::kConnectionClose) answer.head.insert(answer.head.size() - 2, "Connection: close\r\n");
  if (fault.kind == Kind::kConnectionClose || fault.kind == Kind::kSilentClose) answer.how = Answer::End::kClose;
  return answer;
}

Answer ObjectServer::Server::whole_answer(const ServedRequest& request, const ServedFault& fault) {
  const auto plain = [](int status, std::string text, const std::map<std::string, std::string>& headers = {}) {
    Answer answer{.head = fmt::format("HTTP/1.1 {} \r\nContent-Length: {}\r\n", status, text.size())};
    for (const auto& [name, value] : headers) answer.head += fmt::format("{}: {}\r\n", name, value);
    answer.head += "\r\n";
    answer.end = text.size();
    answer.content = std::make_shared<const std::string>(std::move(text));
    return answer;
  };
  if (fault.kind == Kind::kStatus) return plain(fault.status, fault.text, fault.headers);
  if (fault.kind == Kind::kGarbage) return {.head = "220 mail.example.org ESMTP\r\n\r\n", .how = Answer::End::kClose};
  if (options_.s3) {
    const auto next = [this](const std::string& bucket, const std::string& from) { return next_entry(bucket, from); };
    if (const auto said = answer_s3(request, *options_.s3, next)) return plain(said->status, said->text, said->headers);
    if (const auto said = write(request)) return plain(said->status, said->text, said->headers);
  }
  const std::optional<Object> found = object(request);
  if (!found && options_.s3) {
    const ServedFault said = s3_fault(404, "NoSuchKey");
    return plain(said.status, said.text, said.headers);
  }
  if (!found) return plain(404, "there is no such object");
  const std::string tag = fault.kind == Kind::kOtherTag ? "another" : found->tag;
  const auto field = [&](const char* name) {
    const auto at = request.headers.find(name);
    return at == request.headers.end() ? std::string() : at->second;
  };
  if (const std::string match = field("if-match"); !match.empty() && match != "\"" + found->tag + "\"") {
    return plain(412, "the tag is another");
  }
  if (const std::string since = field("if-unmodified-since"); !since.empty() && since != found->date) {
    return plain(412, "the date is another");
  }
  const std::string& content = *found->content;
  Answer answer{.content = found->content, .begin = 0, .end = content.size()};
  std::string status = "200 OK";
  std::string extra;
  const std::string range = field("range");
  if (range.starts_with("bytes=") && fault.kind != Kind::kWholeObject) {
    size_t last = 0;
    const char* const end = range.data() + range.size();
    const char* const dash = std::from_chars(range.data() + 6, end, answer.begin).ptr;
    std::from_chars(dash + 1, end, last);
    if (answer.begin >= content.size()) {
      return plain(416, "", {{"Content-Range", fmt::format("bytes */{}", content.size())}});
    }
    answer.end = std::min(last + 1, content.size());
    if (fault.kind != Kind::kPartAsWhole) status = "206 Partial Content";
    const size_t shift = fault.kind == Kind::kWrongContentRange ? 1 : 0;
    if (fault.kind != Kind::kNoContentRange) {
      extra = fmt::format("Content-Range: bytes {}-{}/{}\r\n", answer.begin + shift, answer.end - 1 + shift,
                          content.size() + shift);
    }
  }
  for (const auto& [name, value] : found->metadata) extra += fmt::format("{}: {}\r\n", name, value);
  const size_t bytes = answer.end - answer.begin;
  if (fault.kind == Kind::kMoreBytes) {
    answer.end = std::min(answer.end + 10, content.size());
    answer.content = std::make_shared<const std::string>(content + std::string(10, 'x'));
    answer.end = answer.begin + bytes + 10;
  }
  const bool ends_encoded = fault.kind == Kind::kEncodedHalf || fault.kind == Kind::kEncodedCut;
  const bool is_encoded = fault.kind == Kind::kEncoded || fault.kind == Kind::kEncodedChunked || ends_encoded;
  const bool is_marked = fault.kind == Kind::kMarkedEncoded || fault.kind == Kind::kMarkedChunked;
  if (is_encoded || is_marked) extra += "Content-Encoding: gzip\r\n";
  const bool is_chunked = fault.kind == Kind::kChunked || fault.kind == Kind::kEncodedChunked ||
                          fault.kind == Kind::kMarkedChunked || ends_encoded;
  if (is_encoded || is_chunked) {
    std::string body = content.substr(answer.begin, bytes);
    if (is_encoded) body = packed(body, Compression::kGzip);
    if (ends_encoded) {
      const size_t sent = fault.kind == Kind::kEncodedHalf ? bytes / 2 : bytes;
      answer.ends_after = fmt::format("{:x}\r\n", body.size()).size() + std::min(sent, body.size());
      answer.how = Answer::End::kClose;
    }
    if (is_chunked) body = fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", body.size(), body);
    answer.content = std::make_shared<const std::string>(std::move(body));
    answer.begin = 0;
    answer.end = answer.content->size();
  }
  extra +=
      is_chunked ? "Transfer-Encoding: chunked\r\n" : fmt::format("Content-Length: {}\r\n", answer.end - answer.begin);
  const bool breaks =
      fault.kind == Kind::kResetInBody || fault.kind == Kind::kCloseInBody || fault.kind == Kind::kStallInBody;
  if (breaks) answer.ends_after = bytes / 2;
  if (fault.kind == Kind::kStallAfterAByte) answer.ends_after = 1;
  if (fault.kind == Kind::kResetInBody) answer.how = Answer::End::kReset;
  if (fault.kind == Kind::kCloseInBody) answer.how = Answer::End::kClose;
  if (fault.kind == Kind::kStallInBody || fault.kind == Kind::kStallAfterAByte) answer.how = Answer::End::kStall;
  answer.head = fmt::format("HTTP/1.1 {}\r\nETag: {}\"{}\"\r\nLast-Modified: {}\r\n{}\r\n", status,
                            fault.kind == Kind::kWeakTag ? "W/" : "", tag, found->date, extra);
  return answer;
}

ObjectServer::ObjectServer(ObjectServerOptions options) : server_(std::make_unique<Server>(std::move(options))) {}
ObjectServer::~ObjectServer() = default;
void ObjectServer::put(const std::string& name, std::string content) { server_->put(name, std::move(content)); }
void ObjectServer::remove(const std::string& name) { server_->remove(name); }
std::optional<std::string> ObjectServer::content(const std::string& name) const { return server_->content(name); }
std::vector<std::string> ObjectServer::names() const { return server_->names(); }
std::vector<std::string> ObjectServer::unfinished_uploads() const { return server_->unfinished_uploads(); }
std::string ObjectServer::url(const std::string& name) const {
  return fmt::format("http://127.0.0.1:{}/{}", server_->port(), name);
}
std::vector<ServedRequest> ObjectServer::requests() const { return server_->requests(); }
size_t ObjectServer::most_in_flight() const { return server_->most_in_flight(); }
size_t ObjectServer::in_flight() const { return server_->in_flight(); }

}  // namespace millrace::test
