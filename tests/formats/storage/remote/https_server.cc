#include "tests/formats/storage/remote/https_server.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <utility>

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "tests/formats/storage/remote/accepting_thread.h"

namespace millrace::test {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

}  // namespace

class HttpsServer::Server {
 public:
  explicit Server(HttpsServerOptions options) : options_(std::move(options)) {
    const auto buffer = [](const std::string& text) { return asio::buffer(text.data(), text.size()); };
    tls_.use_certificate_chain(buffer(options_.certificate.certificate));
    tls_.use_private_key(buffer(options_.certificate.private_key), asio::ssl::context::pem);
    thread_.start([this](tcp::socket socket) {
      ++connections_;
      serve(std::move(socket));
    });
  }

  uint16_t port() const { return thread_.port(); }
  uint64_t connections() const { return connections_; }
  uint64_t requests() const { return requests_; }

 private:
  class Connection;

  void serve(tcp::socket socket);
  http::response<http::string_body> answer(const http::request<http::empty_body>& request);

  const HttpsServerOptions options_;
  asio::ssl::context tls_{asio::ssl::context::tls_server};
  std::atomic<uint64_t> connections_ = 0;
  std::atomic<uint64_t> requests_ = 0;
  AcceptingThread thread_;
};

// One connection: the handshake, then a request, its answer, the next one.
class HttpsServer::Server::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Server& server, tcp::socket socket) : server_(server), stream_(std::move(socket), server.tls_) {}

  void shake_hands() {
    stream_.async_handshake(asio::ssl::stream_base::server, [self = shared_from_this()](const error_code& error) {
      if (!error) self->read();
    });
  }

 private:
  void read() {
    request_ = {};
    http::async_read(stream_, buffer_, request_, [self = shared_from_this()](const error_code& error, size_t) {
      if (error) return;
      self->response_ = self->server_.answer(self->request_);
      http::async_write(self->stream_, self->response_, [self](const error_code& failed, size_t) {
        if (!failed) self->read();
      });
    });
  }

  Server& server_;
  asio::ssl::stream<tcp::socket> stream_;
  boost::beast::flat_buffer buffer_;
  http::request<http::empty_body> request_;
  http::response<http::string_body> response_;
};

void HttpsServer::Server::serve(tcp::socket socket) {
  std::make_shared<Connection>(*this, std::move(socket))->shake_hands();
}

http::response<http::string_body> HttpsServer::Server::answer(const http::request<http::empty_body>& request) {
  ServedRequest served{.method = std::string(request.method_string()), .path = std::string(request.target())};
  served.number = requests_++;
  http::response<http::string_body> response;
  const ServedFault fault = options_.fault ? options_.fault(served) : ServedFault();
  if (fault.kind == ServedFault::Kind::kStatus) {
    response.result(static_cast<unsigned>(fault.status));
    for (const auto& [name, value] : fault.headers) response.set(name, value);
    response.body() = fault.text;
  } else {
    const std::string range(request["Range"]);
    size_t first = 0;
    size_t last = 0;
    const char* const end = range.data() + range.size();
    const char* const dash = std::from_chars(range.data() + std::min<size_t>(6, range.size()), end, first).ptr;
    std::from_chars(std::min(dash + 1, end), end, last);
    last = std::min(last, options_.content.size() - 1);
    response.result(http::status::partial_content);
    response.set(http::field::content_range, fmt::format("bytes {}-{}/{}", first, last, options_.content.size()));
    response.body() = options_.content.substr(first, last - first + 1);
  }
  response.prepare_payload();
  return response;
}

HttpsServer::HttpsServer(HttpsServerOptions options) : server_(std::make_unique<Server>(std::move(options))) {}
HttpsServer::~HttpsServer() = default;
std::string HttpsServer::url(const std::string& name) const {
  return fmt::format("https://127.0.0.1:{}/{}", server_->port(), name);
}
uint64_t HttpsServer::connections() const { return server_->connections(); }
uint64_t HttpsServer::requests() const { return server_->requests(); }

}  // namespace millrace::test
