#include "rdma_engine/net/next_hops.h"

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>

#include "rdma_engine/net/socket_address.h"

namespace jaxina::net {
namespace {

// Neighbour states in which the kernel sends to the neighbour at once.
constexpr unsigned kSendable = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;

struct Ip {
  std::uint8_t family = AF_INET;
  std::uint8_t size = 4;
  std::array<std::uint8_t, 16> bytes{};
};

Ip ip_of(const Address& address) {
  Ip ip;
  if (family(address) == AF_INET) {
    std::memcpy(ip.bytes.data(), &address.bytes[offsetof(sockaddr_in, sin_addr)], 4);
    return ip;
  }
  in6_addr v6;
  std::memcpy(&v6, &address.bytes[offsetof(sockaddr_in6, sin6_addr)], sizeof(v6));
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    std::memcpy(ip.bytes.data(), &v6.s6_addr[12], 4);
    return ip;
  }
  ip = {.family = AF_INET6, .size = 16};
  std::memcpy(ip.bytes.data(), &v6, sizeof(v6));
  return ip;
}

// A netlink request with one attribute, an IP address, and its answer.
template <typename Body>
class Query {
 public:
  Query(std::uint16_t type, const Body& body, std::uint16_t attribute, const Ip& ip) {
    request_.header = {.nlmsg_len = static_cast<std::uint32_t>(offsetof(Request, ip) + ip.size),
                       .nlmsg_type = type,
                       .nlmsg_flags = NLM_F_REQUEST,
                       .nlmsg_seq = 0,
                       .nlmsg_pid = 0};
    request_.body = body;
    request_.attribute = {.rta_len = static_cast<std::uint16_t>(RTA_LENGTH(ip.size)), .rta_type = attribute};
    request_.ip = ip.bytes;
  }

  // The answer's body, or nothing after an error.
  std::optional<Body> ask(int netlink) {
    if (send(netlink, &request_, request_.header.nlmsg_len, 0) < 0) return std::nullopt;
    // The kernel answers before send() returns.
    const ssize_t size = recv(netlink, answer_.data(), answer_.size(), MSG_DONTWAIT);
    nlmsghdr header;
    if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(Body)))) return std::nullopt;
    std::memcpy(&header, answer_.data(), sizeof(header));
    if (header.nlmsg_type == NLMSG_ERROR || header.nlmsg_len > static_cast<std::size_t>(size)) return std::nullopt;
    attributes_ = std::span(answer_).subspan(NLMSG_LENGTH(sizeof(Body)), header.nlmsg_len - NLMSG_LENGTH(sizeof(Body)));
    Body body;
    std::memcpy(&body, &answer_[NLMSG_HDRLEN], sizeof(body));
    return body;
  }

  // Copies an attribute of the answer. False if the answer has no attribute of this type and size.
  template <typename Value>
  bool read(std::uint16_t type, Value* value, std::size_t size) const {
    std::span<const std::uint8_t> rest = attributes_;
    rtattr attribute;
    while (rest.size() >= sizeof(attribute)) {
      std::memcpy(&attribute, rest.data(), sizeof(attribute));
      if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > rest.size()) return false;
      if (attribute.rta_type == type && attribute.rta_len == RTA_LENGTH(size)) {
        std::memcpy(value, rest.data() + RTA_LENGTH(0), size);
        return true;
      }
      rest = rest.subspan(std::min<std::size_t>(RTA_ALIGN(attribute.rta_len), rest.size()));
    }
    return false;
  }

 private:
  struct Request {
    nlmsghdr header;
    Body body;
    rtattr attribute;
    std::array<std::uint8_t, 16> ip;
  } request_{};
  static_assert(sizeof(Body) % NLMSG_ALIGNTO == 0, "the attribute follows at once");
  std::array<std::uint8_t, 2048> answer_;
  std::span<const std::uint8_t> attributes_;
};

bool has_link_addresses(std::uint32_t interface) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  request.ifr_ifindex = static_cast<int>(interface);
  return ioctl(socket.get(), SIOCGIFNAME, &request) == 0 && ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 &&
         (request.ifr_flags & (IFF_NOARP | IFF_LOOPBACK | IFF_POINTOPOINT)) == 0;
}

}  // namespace

NextHops::NextHops() : netlink_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {}

bool NextHops::resolved(const Address& to) const {
  if (netlink_.get() < 0) return true;
  Ip hop = ip_of(to);
  rtmsg to_host{};
  to_host.rtm_family = hop.family;
  to_host.rtm_dst_len = static_cast<std::uint8_t>(8 * hop.size);
  Query<rtmsg> route(RTM_GETROUTE, to_host, RTA_DST, hop);
  const std::optional<rtmsg> found = route.ask(netlink_.get());
  std::uint32_t interface = 0;
  if (!found || found->rtm_type != RTN_UNICAST || !route.read(RTA_OIF, &interface, sizeof(interface))) return true;
  route.read(RTA_GATEWAY, hop.bytes.data(), hop.size);

  ndmsg on_link{};
  on_link.ndm_family = hop.family;
  on_link.ndm_ifindex = static_cast<std::int32_t>(interface);
  Query<ndmsg> neighbour(RTM_GETNEIGH, on_link, NDA_DST, hop);
  if (const std::optional<ndmsg> known = neighbour.ask(netlink_.get())) return (known->ndm_state & kSendable) != 0;
  return !has_link_addresses(interface);
}

}  // namespace jaxina::net
