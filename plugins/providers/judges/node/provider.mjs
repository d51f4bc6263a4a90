// An OpenID provider on loopback: npm's oidc-provider with a client for each way of authentication.
//
//   node provider.mjs OPTIONS        OPTIONS is JSON: { tls: { cert, key }, ttl: { IdToken: … }, jwk, certificate, rotate }
//
// Prints `issuer ADDRESS` once it listens, then a line for each grant. A GET of `/test/revoke` ends all
// refresh tokens. Whoever opens a login page is logged in as `ann` at once.
import { createPrivateKey, generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import * as http from 'node:http'
import * as https from 'node:https'

import { Provider, errors } from 'oidc-provider'

const options = JSON.parse(process.argv[2] ?? '{}')
// Read again before the export: Node 20 can lock up for ever if it collects a finished generation of keys while it exports
// the key that came from it.
const generate = (kind, settings = {}) => {
  const pem = generateKeyPairSync(kind, {
    ...settings,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  }).privateKey
  return createPrivateKey(pem).export({ format: 'jwk' })
}
const keys = [
  { ...generate('rsa', { modulusLength: 2048 }), alg: 'RS256', use: 'sig', kid: 'rsa' },
  { ...generate('ec', { namedCurve: 'P-256' }), alg: 'ES256', use: 'sig', kid: 'ec' },
  { ...generate('ed25519'), alg: 'EdDSA', use: 'sig', kid: 'ed' },
]
const device = 'urn:ietf:params:oauth:grant-type:device_code'
const native = {
  application_type: 'native',
  grant_types: ['authorization_code', 'refresh_token', 'password', device],
  redirect_uris: ['http://localhost', 'http://127.0.0.1'],
}
const own = { grant_types: ['client_credentials'], redirect_uris: [], response_types: [] }
const clients = [
  { client_id: 'public', token_endpoint_auth_method: 'none', ...native },
  { client_id: 'elliptic', token_endpoint_auth_method: 'none', id_token_signed_response_alg: 'ES256', ...native },
  { client_id: 'edwards', token_endpoint_auth_method: 'none', id_token_signed_response_alg: 'EdDSA', ...native },
  { client_id: 'browser-only', token_endpoint_auth_method: 'none', ...native, grant_types: ['authorization_code'] },
  { client_id: 'basic', client_secret: 'a secret & more', token_endpoint_auth_method: 'client_secret_basic', ...native, grant_types: [...native.grant_types, 'client_credentials'] },
  { client_id: 'post', client_secret: 's3cr3t', token_endpoint_auth_method: 'client_secret_post', ...own },
]
if (options.jwk) {
  clients.push({ client_id: 'key', token_endpoint_auth_method: 'private_key_jwt', jwks: { keys: [options.jwk] }, ...native, grant_types: [...native.grant_types, 'client_credentials'] })
}
if (options.subject) {
  clients.push({ client_id: 'certificate', token_endpoint_auth_method: 'tls_client_auth', tls_client_auth_subject_dn: options.subject, ...own })
}

let provider
const answer = (request, response) => {
  const [path, word, uid] = request.url.split('/')
  if (request.url === '/test/mark') {
    console.log('mark')
    response.end()
  } else if (request.url === '/version') {
    // It is an API server, too.
    console.log(`version ${request.headers.authorization ? 'with' : 'without'} a token`)
    response.end('{}')
  } else if (request.url === '/test/revoke') {
    revoked = true
    response.end('revoked')
  } else if (path === '' && word === 'interaction' && uid) {
    enter(request, response).catch((error) => response.writeHead(500).end(String(error)))
  } else {
    provider.callback()(request, response)
  }
}
let revoked = false
const tls = options.tls && {
  cert: readFileSync(options.tls.cert), key: readFileSync(options.tls.key), ca: readFileSync(options.tls.cert),
  requestCert: true, rejectUnauthorized: false,
}
const server = tls ? https.createServer(tls, answer) : http.createServer(answer)

// The port is the system's choice and part of the issuer's name: listen first, then make the provider.
server.listen(0, '127.0.0.1', () => {
  const issuer = `${tls ? 'https' : 'http'}://127.0.0.1:${server.address().port}`
  provider = new Provider(issuer, {
    clients,
    claims: { openid: ['sub', 'email', 'groups'] },
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt', 'tls_client_auth'],
    conformIdTokenClaims: false,
    enabledJWA: { idTokenSigningAlgValues: ['RS256', 'ES256', 'EdDSA'], clientAuthSigningAlgValues: ['RS256', 'ES256', 'EdDSA'] },
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      deviceFlow: { enabled: true },
      mTLS: {
        enabled: true, tlsClientAuth: true,
        getCertificate: (context) => {
          const found = context.req.socket.getPeerX509Certificate?.()
          return found ? found.toString() : undefined
        },
        certificateAuthorized: (context) => context.req.socket.getPeerX509Certificate?.() !== undefined,
        certificateSubjectMatches: (context, property, expected) =>
          property === 'tls_client_auth_subject_dn' && context.req.socket.getPeerX509Certificate().subject === expected,
      },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => 'urn:cluster',
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({ scope: 'openid api', audience: 'cluster', accessTokenTTL: 600, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } }),
      },
    },
    findAccount: (_, id, token) => revoked && token?.kind === 'RefreshToken' ? undefined : { accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, groups: ['readers'] }) },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    issueRefreshToken: () => true,
    jwks: { keys },
    rotateRefreshToken: options.rotate ?? true,
    scopes: ['openid', 'offline_access', 'email', 'api'],
    ttl: { IdToken: 600, AccessToken: 600, ClientCredentials: 600, RefreshToken: 3600, Interaction: 600, Session: 600, Grant: 3600, DeviceCode: 600, ...options.ttl },
  })
  provider.registerGrantType('password', byPassword, ['username', 'password', 'scope'], [])
  provider.on('grant.success', (context) => console.log(`grant ${context.oidc.params.grant_type}`))
  provider.on('grant.error', (context, error) => console.log(`refused ${context.oidc?.params?.grant_type} ${error.error} ${error.error_description} ${error.error_detail ?? ''}`))
  provider.on('authorization.error', (_, error) => console.log(`refused authorization ${error.error} ${error.error_description}`))
  provider.on('server_error', (_, error) => console.log(`error ${error.stack}`))
  console.log(`issuer ${issuer}`)
})

// Ends with the test that started it.
process.stdin.on('end', () => process.exit()).resume()

// Login and consent in one step.
async function enter(request, response) {
  const { params } = await provider.interactionDetails(request, response)
  console.log('page')
  const grant = new provider.Grant({ accountId: 'ann', clientId: params.client_id })
  grant.addOIDCScope('openid email offline_access')
  grant.addResourceScope('urn:cluster', 'openid api')
  const grantId = await grant.save()
  await provider.interactionFinished(request, response, { login: { accountId: 'ann' }, consent: { grantId } })
}

async function byPassword(context) {
  const { client, params } = context.oidc
  if (params.username !== 'ann' || params.password !== 'correct horse') {
    throw new errors.InvalidGrant('the name or the password is wrong')
  }
  const grant = new provider.Grant({ accountId: params.username, clientId: client.clientId })
  grant.addOIDCScope(params.scope)
  const shared = { client, accountId: params.username, grantId: await grant.save(), gty: 'password', scope: params.scope }
  const access = await new provider.AccessToken(shared).save()
  const refresh = await new provider.RefreshToken(shared).save()
  const token = new provider.IdToken({ sub: params.username, email: 'ann@example.com' }, { ctx: context })
  token.scope = params.scope
  const idToken = await token.issue({ use: 'idtoken' })
  context.body = { access_token: access, refresh_token: refresh, id_token: idToken, token_type: 'Bearer', expires_in: 600, scope: params.scope }
}
