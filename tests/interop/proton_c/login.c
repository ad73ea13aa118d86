/* Logs Qpid Proton's examples in. They connect without a SASL layer, which a broker may refuse and this one
 * does; linked with -Wl,--wrap=pn_proactor_connect2 they say user and password, and are unchanged else. */

#include <proton/connection.h>
#include <proton/proactor.h>
#include <proton/sasl.h>
#include <proton/transport.h>

void __real_pn_proactor_connect2(pn_proactor_t *, pn_connection_t *, pn_transport_t *, const char *);

void __wrap_pn_proactor_connect2(pn_proactor_t *proactor, pn_connection_t *connection,
                                 pn_transport_t *transport, const char *address) {
  connection = connection ? connection : pn_connection();
  pn_connection_set_user(connection, "guest");
  pn_connection_set_password(connection, "guest");
  transport = transport ? transport : pn_transport();
  pn_sasl_allowed_mechs(pn_sasl(transport), "PLAIN");
  /* To 127.0.0.1, without TLS. */
  pn_sasl_set_allow_insecure_mechs(pn_sasl(transport), true);
  __real_pn_proactor_connect2(proactor, connection, transport, address);
}
