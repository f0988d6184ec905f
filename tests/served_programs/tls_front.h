#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/formats/storage/remote/certificate.h"

namespace millrace::test {

/// A proxy for HTTPS (`CONNECT`), on a port of 127.0.0.1 of its own and one thread, that leads to no other host: it
/// answers itself, with a certificate, and hands what it is sent to a server without TLS. So a program asks a server of
/// the test for `https://storage.googleapis.com`.
class TlsFront {
 public:
  TlsFront(const Certificate& certificate, uint16_t port_of_server);
  ~TlsFront();
  TlsFront(const TlsFront&) = delete;
  TlsFront& operator=(const TlsFront&) = delete;

  [[nodiscard]] std::string proxy() const;      ///< `http://127.0.0.1:PORT`
  [[nodiscard]] std::string asked_for() const;  ///< `HOST:PORT` of the last connection

 private:
  class Front;
  const std::unique_ptr<Front> front_;
};

}  // namespace millrace::test
