#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <openssl/evp.h>
#include <openssl/x509.h>

namespace millrace::test {

/// A certificate and its key, in PEM.
struct Certificate {
  std::string certificate;
  std::string private_key;
};

struct CertificateOptions {
  std::string name = "IP:127.0.0.1";  ///< whom it is for, as OpenSSL writes it: `IP:…` or `DNS:…`
  std::chrono::hours begins{-48};     ///< from now
  std::chrono::hours ends{48};        ///< the same
};

/// An authority made for a test, which issues certificates. One thread.
class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& name = "an authority of the test");
  [[nodiscard]] std::string certificate() const;  ///< its own, in PEM
  [[nodiscard]] Certificate issue(const CertificateOptions& options = {}) const;

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Signed = std::unique_ptr<X509, Free>;
  [[nodiscard]] Signed sign(EVP_PKEY* key, const std::string& subject, const CertificateOptions& options) const;

  const Key key_;
  const Signed own_;
};

}  // namespace millrace::test
