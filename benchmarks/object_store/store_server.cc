#include "benchmarks/object_store/store_server.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio.hpp>
#include <fmt/format.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "benchmarks/object_store/store_writer.h"
#include "benchmarks/process_usage.h"

namespace millrace {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kBucket = "/bench";
constexpr size_t kPiece = 128 << 10;  // of a body, between two looks at the rates
constexpr std::chrono::seconds kStall{5};
constexpr size_t kPage = 1000;  // keys of a listing

// When so many bytes may be sent. Time up to `slack` may be made up for, so that timers that come late cost no rate.
class RateLimit {
 public:
  explicit RateLimit(double megabytes) : seconds_per_byte_(megabytes > 0 ? 1e-6 / megabytes : 0) {}
  void start(Clock::time_point now) { free_at_ = now; }
  Clock::time_point take(size_t bytes, Clock::time_point now) {
    constexpr std::chrono::milliseconds kSlack{10};
    free_at_ = std::max(free_at_, now - kSlack) +
               std::chrono::duration_cast<Clock::duration>(
                   std::chrono::duration<double>(seconds_per_byte_ * static_cast<double>(bytes)));
    return free_at_;
  }

 private:
  const double seconds_per_byte_;
  Clock::time_point free_at_{};
};

uint64_t scattered(uint64_t value) {
  value = (value ^ (value >> 33)) * 0xff51afd7ed558ccd;
  return value ^ (value >> 33);
}

// One of so many in turn, at a place that is another in each turn.
bool is_chosen(uint64_t number, double share) {
  if (share <= 0) return false;
  const auto turn = static_cast<uint64_t>(std::max(1.0, 1 / share));
  return number % turn == scattered(number / turn + 1) % turn;
}

struct Request {
  std::string method;
  std::string path;
  std::map<std::string, std::string> query;
  std::string range;
  uint64_t body_bytes = 0;
};

std::string decoded(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    int value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ec == std::errc()) {
      plain += static_cast<char>(value);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// `name`: with the end of line before it, in lower case.
std::string field_of(std::string_view head, std::string_view name) {
  const auto found = std::search(head.begin(), head.end(), name.begin(), name.end(),
                                 [](unsigned char c, unsigned char of) { return std::tolower(c) == of; });
  if (found == head.end()) return {};
  const std::string_view value = head.substr(static_cast<size_t>(found - head.begin()) + name.size());
  return std::string(value.substr(0, value.find("\r\n")));
}

Request parse(std::string_view head) {
  Request request;
  const std::string_view line = head.substr(0, head.find("\r\n"));
  request.method = line.substr(0, line.find(' '));
  std::string_view target = line.substr(std::min(line.size(), request.method.size() + 1));
  target = target.substr(0, target.find(' '));
  const size_t mark = target.find('?');
  request.path = decoded(target.substr(0, mark));
  for (std::string_view rest = mark == target.npos ? "" : target.substr(mark + 1); !rest.empty();) {
    const std::string_view field = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), field.size() + 1));
    const size_t equals = field.find('=');
    request.query[std::string(field.substr(0, equals))] = equals == field.npos ? "" : decoded(field.substr(equals + 1));
  }
  request.range = field_of(head, "\r\nrange: ");
  const std::string length = field_of(head, "\r\ncontent-length: ");
  std::from_chars(length.data(), length.data() + length.size(), request.body_bytes);
  return request;
}

struct Answer {
  std::string head = {};  // and what follows at once
  uint64_t begin = 0;     // of the body's bytes in the content
  uint64_t left = 0;
  enum class Fault { kNone, kReset, kShort } fault = Fault::kNone;
};

class Server {
 public:
  Server(const StoreContent& content, const StoreRules& rules, uint16_t port)
      : content_(content),
        rules_(rules),
        acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), port)),
        input_(context_, ::dup(0)),
        all_(rules.all_mb) {}

  void run() {
    accept();
    wait_for_end();
    fmt::print("http://127.0.0.1:{}\n", acceptor_.local_endpoint().port());
    std::fflush(stdout);
    context_.run();
    fmt::print("requests {}\nbytes {}\nbytes_taken {}\nsum_taken {}\ncpu_seconds {:.3f}\n", num_requests_, num_bytes_,
               num_taken_, sum_taken_, process_usage().cpu_seconds - cpu_seconds_);
  }

 private:
  class Connection;

  void accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
      if (!error) serve(std::move(socket));
      accept();
    });
  }
  void serve(tcp::socket socket);
  void wait_for_end() {
    input_.async_read_some(asio::buffer(typed_), [this](const error_code& error, size_t) {
      if (error) return context_.stop();
      wait_for_end();
    });
  }

  Answer answer(const Request& request, std::chrono::nanoseconds& wait);
  Answer object_answer(const Request& request, const std::string& key, const StoreContent::Slice& slice,
                       std::chrono::nanoseconds& wait);
  Answer listing(const Request& request) const;

  const StoreContent& content_;
  const StoreRules rules_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_;
  asio::posix::stream_descriptor input_;
  std::array<char, 256> typed_{};
  RateLimit all_;
  const double cpu_seconds_ = process_usage().cpu_seconds;
  uint64_t num_requests_ = 0;
  uint64_t num_reads_ = 0;  // requests for bytes
  uint64_t num_bytes_ = 0;
  uint64_t num_taken_ = 0;  // bytes of bodies of PUT
  uint64_t sum_taken_ = 0;  // of them
};

Answer plain(const char* status, std::string_view text, bool is_head, const std::string& fields = "") {
  return {.head = fmt::format("HTTP/1.1 {}\r\nContent-Type: application/xml\r\nx-amz-request-id: 1\r\n{}"
                              "Content-Length: {}\r\n\r\n{}",
                              status, fields, text.size(), is_head ? "" : text)};
}

Answer s3_error(const char* status, std::string_view code, bool is_head) {
  return plain(status,
               fmt::format("<?xml version=\"1.0\"?><Error><Code>{0}</Code><Message>{0}</Message></Error>", code),
               is_head);
}

Answer Server::answer(const Request& request, std::chrono::nanoseconds& wait) {
  ++num_requests_;
  wait = std::chrono::milliseconds(rules_.latency_ms);
  const bool is_head = request.method == "HEAD";
  if (!request.path.starts_with(kBucket)) return s3_error("404 Not Found", "NoSuchBucket", is_head);
  if (request.method == "PUT") return plain("200 OK", "", false, "ETag: \"1\"\r\n");
  if (request.method == "POST") {
    return plain("200 OK",
                 request.query.contains("uploads")
                     ? "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
                     : "<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>",
                 false);
  }
  if (request.method != "GET" && !is_head) return s3_error("405 Method Not Allowed", "MethodNotAllowed", false);
  const std::string key = request.path.substr(std::min(request.path.size(), kBucket.size() + 1));
  if (key.empty()) {
    return is_head ? plain("200 OK", "", true, "x-amz-bucket-region: us-east-1\r\n") : listing(request);
  }
  const auto found = content_.objects().find(key);
  if (found == content_.objects().end()) return s3_error("404 Not Found", "NoSuchKey", is_head);
  return object_answer(request, key, found->second, wait);
}

Answer Server::object_answer(const Request& request, const std::string& key, const StoreContent::Slice& slice,
                             std::chrono::nanoseconds& wait) {
  uint64_t first = 0;
  uint64_t last = slice.size - 1;
  const bool is_range = request.range.starts_with("bytes=");
  if (is_range) {
    const char* const end = request.range.data() + request.range.size();
    const char* const dash = std::from_chars(request.range.data() + 6, end, first).ptr;
    if (dash != end) std::from_chars(dash + 1, end, last);
    last = std::min(last, slice.size - 1);
    if (first > last) return s3_error("416 Range Not Satisfiable", "InvalidRange", request.method == "HEAD");
  }
  Answer answer{.head = fmt::format(
                    "HTTP/1.1 {}\r\nContent-Length: {}\r\nETag: \"{:016x}\"\r\nAccept-Ranges: bytes\r\n"
                    "Last-Modified: Sat, 28 Nov 2026 00:00:00 GMT\r\nContent-Type: binary/octet-stream\r\n",
                    is_range ? "206 Partial Content" : "200 OK", last - first + 1, std::hash<std::string>()(key))};
  if (is_range) answer.head += fmt::format("Content-Range: bytes {}-{}/{}\r\n", first, last, slice.size);
  answer.head += "x-amz-request-id: 1\r\n\r\n";
  if (request.method == "HEAD") return answer;
  answer.begin = slice.begin + first;
  answer.left = last - first + 1;
  const uint64_t number = num_reads_++;
  if (is_chosen(number, rules_.stalled)) wait += kStall;
  if (is_chosen(number, rules_.failing)) {
    switch (scattered(number) % 3) {
      case 0: return s3_error("503 Slow Down", "SlowDown", false);
      case 1: answer.fault = Answer::Fault::kReset; break;
      default: answer.fault = Answer::Fault::kShort; answer.left /= 2;
    }
  }
  return answer;
}

Answer Server::listing(const Request& request) const {
  const auto field = [&](const char* name) {
    const auto found = request.query.find(name);
    return found == request.query.end() ? std::string() : found->second;
  };
  const std::string prefix = field("prefix");
  const std::string delimiter = field("delimiter");
  size_t most = kPage;
  if (const std::string asked = field("max-keys"); !asked.empty()) {
    std::from_chars(asked.data(), asked.data() + asked.size(), most);
    most = std::min(most, kPage);
  }
  const std::string from = std::max(prefix, field("continuation-token"));
  std::string entries;
  std::string next;
  size_t count = 0;
  for (auto at = content_.objects().lower_bound(from);
       at != content_.objects().end() && at->first.starts_with(prefix);) {
    if (count == most) {
      next = at->first;
      break;
    }
    ++count;
    const auto& [key, slice] = *at;
    const size_t folder = delimiter.empty() ? key.npos : key.find(delimiter, prefix.size());
    if (folder == key.npos) {
      entries += fmt::format(
          "<Contents><Key>{}</Key><LastModified>2026-11-28T00:00:00.000Z</LastModified><ETag>&quot;{:016x}&quot;</ETag>"
          "<Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>",
          key, std::hash<std::string>()(key), slice.size);
      ++at;
      continue;
    }
    const std::string common = key.substr(0, folder + 1);
    entries += fmt::format("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", common);
    while (at != content_.objects().end() && at->first.starts_with(common)) ++at;
  }
  return plain("200 OK",
               fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
                           "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>bench</Name><Prefix>{}</Prefix>"
                           "<KeyCount>{}</KeyCount><MaxKeys>{}</MaxKeys><IsTruncated>{}</IsTruncated>{}{}"
                           "</ListBucketResult>",
                           prefix, count, most, !next.empty(),
                           next.empty() ? "" : "<NextContinuationToken>" + next + "</NextContinuationToken>", entries),
               false);
}

// One connection: a request, its answer, the next one.
class Server::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Server& server, tcp::socket socket)
      : server_(server), socket_(std::move(socket)), timer_(server.context_), rate_(server.rules_.connection_mb) {
    socket_.set_option(tcp::no_delay(true));
    socket_.native_non_blocking(true);
  }

  void read_request() {
    asio::async_read_until(socket_, asio::dynamic_buffer(input_), "\r\n\r\n",
                           [self = shared_from_this()](const error_code& error, size_t bytes) {
                             if (!error) self->answer(bytes);
                           });
  }

 private:
  void answer(size_t head_bytes) {
    std::chrono::nanoseconds wait{0};
    const Request request = parse(std::string_view(input_).substr(0, head_bytes));
    answer_ = server_.answer(request, wait);
    input_.erase(0, head_bytes);
    wait_ = wait;
    is_taken_ = request.method == "PUT";
    body_left_ = request.body_bytes;
    rate_.start(Clock::now());
    take_body();
  }

  // Reads no faster than the rates allow: the sender finds its socket full.
  void take_body() {
    if (body_left_ == 0) return answer_later();
    if (!input_.empty()) {
      const size_t bytes = std::min<uint64_t>(input_.size(), body_left_);
      take({input_.data(), bytes});
      input_.erase(0, bytes);
      return take_body();
    }
    const size_t bytes = std::min<uint64_t>(body_left_, kPiece);
    const Clock::time_point now = Clock::now();
    const Clock::time_point due = std::max(rate_.take(bytes, now), server_.all_.take(bytes, now));
    if (due <= now) return read_body(bytes);
    timer_.expires_at(due);
    timer_.async_wait([self = shared_from_this(), bytes](const error_code&) { self->read_body(bytes); });
  }
  void read_body(size_t bytes) {
    asio::async_read(socket_, asio::buffer(body_.data(), bytes),
                     [self = shared_from_this()](const error_code& error, size_t read) {
                       if (error) return;
                       self->take({self->body_.data(), read});
                       self->take_body();
                     });
  }
  void take(std::string_view bytes) {
    body_left_ -= bytes.size();
    if (!is_taken_) return;
    server_.num_taken_ += bytes.size();
    server_.sum_taken_ += sum_of(bytes);
  }

  void answer_later() {
    if (wait_.count() == 0) return write_head();
    timer_.expires_after(wait_);
    timer_.async_wait([self = shared_from_this()](const error_code&) { self->write_head(); });
  }

  void write_head() {
    if (answer_.fault == Answer::Fault::kReset) return reset();
    rate_.start(Clock::now());
    asio::async_write(socket_, asio::buffer(answer_.head),
                      [self = shared_from_this()](const error_code& error, size_t) {
                        if (!error) self->write_body();
                      });
  }

  void write_body() {
    if (answer_.left == 0) return answer_.fault == Answer::Fault::kShort ? close() : read_request();
    const size_t bytes = std::min<uint64_t>(answer_.left, kPiece);
    const Clock::time_point now = Clock::now();
    const Clock::time_point due = std::max(rate_.take(bytes, now), server_.all_.take(bytes, now));
    if (due <= now) return push(bytes);
    timer_.expires_at(due);
    timer_.async_wait([self = shared_from_this(), bytes](const error_code&) { self->push(bytes); });
  }

  void push(size_t bytes) {
    while (bytes > 0) {
      auto offset = static_cast<off_t>(answer_.begin);
      const ssize_t sent = ::sendfile(socket_.native_handle(), server_.content_.descriptor(), &offset, bytes);
      if (sent < 0 && errno == EAGAIN) {
        return socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this(), bytes](const error_code& error) {
          if (!error) self->push(bytes);
        });
      }
      if (sent <= 0) return close();
      answer_.begin += static_cast<uint64_t>(sent);
      answer_.left -= static_cast<uint64_t>(sent);
      server_.num_bytes_ += static_cast<uint64_t>(sent);
      bytes -= static_cast<size_t>(sent);
    }
    write_body();
  }

  void reset() {
    error_code ignored;
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    close();
  }
  void close() {
    error_code ignored;
    socket_.close(ignored);
  }

  Server& server_;  // whose context owns this
  tcp::socket socket_;
  asio::steady_timer timer_;
  RateLimit rate_;
  std::string input_;
  Answer answer_;
  std::chrono::nanoseconds wait_{0};
  std::array<char, kPiece> body_;
  uint64_t body_left_ = 0;
  bool is_taken_ = false;
};

void Server::serve(tcp::socket socket) { std::make_shared<Connection>(*this, std::move(socket))->read_request(); }

}  // namespace

void serve_store(const StoreContent& content, const StoreRules& rules, uint16_t port) {
  std::signal(SIGPIPE, SIG_IGN);  // that sendfile raises
  Server(content, rules, port).run();
}

}  // namespace millrace
