// Printed by `python -m tools.console_types` from the types of the API. Do not edit.

export interface AbortBody {
  result?: string;
  give_back?: boolean;
}

export interface AccessEntryJson {
  who: string;
  sid: string;
  denied: boolean;
  rights: Array<string>;
}

export interface AccessJson {
  owner: string;
  entries: Array<AccessEntryJson>;
}

export interface AccessSetBody {
  entries: Array<AccessSetEntry>;
}

export interface AccessSetEntry {
  who: string;
  rights: Array<"change-permissions" | "delete" | "full" | "get-permissions" | "get-properties" | "journal" | "peek" | "properties" | "purge" | "receive" | "send" | "set-properties" | "take-ownership">;
  denied: boolean;
}

export interface AcknowledgeBody {
  through: number;
  epoch?: number | null;
  stream?: string;
}

export interface AcknowledgedJson {
  name: string;
  queue: string;
  mode: "consume" | "observe";
  position: number;
  claim_after: number;
  claimed: number;
  claimed_messages: number;
  stream: string;
  epoch: number;
  owner: string;
  leased: boolean;
  lease_left_ms: number;
  lag_messages: number;
  lag_bytes: number;
  acknowledged: number;
  received_elsewhere: number;
  expired: number;
  purged: number;
  moved_away: number;
  created_time: string;
  last_time: string;
  received: number;
}

export interface AliasPart {
  name: string;
  queue: string;
  guid: string;
  description: string;
}

export interface ArrowParams {
  queue: string;
  after?: number;
  through?: number | null;
  columns?: string;
  constants?: boolean;
  since?: number;
  until?: number | null;
  priorities?: string;
  classes?: string;
}

export interface AttachedJson {
  id: number;
  name: string;
  type: string;
  station: number;
}

export interface AuditEntryJson {
  seq: number;
  time: string;
  user: string;
  role: string;
  token: string;
  address: string;
  act: string;
  object: Record<string, unknown>;
  outcome: string;
  error: string;
  result: Record<string, unknown>;
}

export interface AuditPageJson {
  entries: Array<AuditEntryJson>;
  next: number | null;
  unwritten: number;
}

export interface AuditParams {
  before?: number;
  after?: number;
  since?: string;
  user?: string;
  act?: string;
  limit?: number;
}

export interface BackupBody {
  directory: string;
}

export interface BackupJson {
  directory: string;
}

export interface BatchParams {
  query: string;
  batch: number;
}

export interface BinderyAccessJson {
  read_level: number;
  write_level: number;
  object_id: number;
  name: string;
  type: string;
}

export interface BinderyParams {
  station?: string | null;
}

export interface BodyFormatter {
  formatter: "activex" | "json" | "text" | "xml";
  type: string;
  root: string;
  namespace: string;
}

export interface BooksJson {
  queue: string;
  accepted: number;
  waiting: number;
  locked: number;
  received: number;
  expired: number;
  purged: number;
  rejected: number;
  moved_away: number;
  lost_express: number;
  balanced: boolean;
}

export interface BooksListJson {
  books: Array<BooksJson>;
  balanced: boolean;
  next: number | null;
}

export interface BooksParams {
  after?: number;
  limit?: number;
}

export interface BulkJson {
  matched: number;
  done: number;
  gone: number;
  refused: number;
  error: ErrorBody | null;
  dry_run: boolean;
}

export interface CertificateImportBody {
  file?: string;
  password?: string | null;
}

export interface CertificateJson {
  id: string;
  kind: "machine" | "user";
  owner: string;
  sid: string | null;
  guid: string | null;
  subject: string | null;
  issuer: string | null;
  digest: string | null;
  fingerprint: string | null;
  key_bits: number | null;
  not_before: string | null;
  not_after: string | null;
  internal: boolean;
  private_key: boolean;
  providers: Array<string>;
  certificate: string;
  created_time: string;
}

export interface CertificateListJson {
  certificates: Array<CertificateJson>;
}

export interface CertificateMakeBody {
  user?: string | null;
  days?: number;
  bits?: 1024 | 2048 | 3072 | 4096 | null;
  replace?: boolean;
}

export interface CertificateParams {
  id: string;
}

export interface CertificateTrustBody {
  sid?: string | null;
  guid?: string | null;
  name?: string | null;
  certificate?: string | null;
  public_keys?: string | null;
}

export interface ChangedFieldJson {
  field: string;
  before: string;
  after: string;
}

export interface ChangedObjectJson {
  kind: "alias" | "link" | "list" | "machine" | "network" | "queue" | "site" | "user" | "enterprise";
  name: string;
  change: "changed" | "created" | "deleted";
  fields: Array<ChangedFieldJson>;
  named_by: Array<string>;
  left_off: number;
}

export interface ClaimBody {
  epoch: number;
  through: number;
  after?: number | null;
  stream?: string;
  skip?: boolean;
  incarnation?: string;
}

export interface ClaimJson {
  queue: string;
  group: string;
  messages: number;
  leased: boolean;
}

export interface ClockJson {
  address: string;
  behind_s: number;
  messages: number;
  seen: string;
}

export interface ConflictJson {
  source: string;
  address: string;
  other: string;
  last_time: string | null;
}

export interface ConnectionJson {
  time: string;
  status: string;
  status_code: number;
  error: number;
  next_hops: Array<string>;
}

export interface CountJson {
  messages: number;
  dry_run: boolean;
}

export interface CountedJson {
  name: string;
  count: number;
}

export interface CutJson {
  after: number;
  through: number;
  messages: number;
  bytes: number;
}

export interface DamageAcceptBody {
  records: Array<RecordPlaceJson>;
}

export interface DamageListJson {
  records: Array<DamagedRecordJson>;
}

export interface DamagedRecordJson {
  file: string;
  offset: number;
  bytes: number;
  reason: string;
  message: number;
  queue: string | null;
  lookup_id: number | null;
  found: string | null;
}

export interface DepartureJson {
  queue: string;
  lookup_id: number;
  time: string;
  how: string;
  reader: string;
  certain: boolean;
}

export interface DirectoryChangeJson {
  changes: Array<ChangedObjectJson>;
}

export interface DirectoryImportBody {
  document: Document;
  only?: Array<string> | null;
  prune?: boolean;
  dry_run?: boolean;
}

export interface DirectoryRemoveBody {
  kind: "alias" | "link" | "list" | "machine" | "network" | "queue" | "site" | "user";
  name: string;
  dry_run?: boolean;
}

export interface DirectoryStatusJson {
  source: string;
  online: boolean;
  since: string;
  refreshed: string;
  reason: string;
  unusable: Array<string>;
  shared: boolean;
  routing_server: boolean;
}

export interface DirectoryUserBody {
  user: string;
  name?: string;
  certificates?: Array<string>;
  withdraw?: Array<string>;
  dry_run?: boolean;
}

export interface DiscardedJson {
  stages: number;
}

export interface Document {
  enterprise: EnterprisePart | null;
  sites: Array<SitePart>;
  links: Array<LinkPart>;
  machines: Array<MachinePart>;
  queues: Array<QueuePart>;
  lists: Array<ListPart>;
  aliases: Array<AliasPart>;
  users: Array<UserPart>;
  networks: Array<NetworkPart>;
}

export interface Done {
  done: boolean;
}

export interface DryRunParams {
  queue: string;
  dry_run?: boolean;
}

export interface EnterprisePart {
  name: string;
  default_time_to_reach_queue_s: number;
  guid: string;
  weakened_security: boolean | null;
  change_notifications: boolean | null;
  old_directory: boolean | null;
  security: string | null;
}

export interface ErrorBody {
  name: string;
  code: number;
  cause: string;
  remedy: string;
  hex?: string;
  row?: number;
  column?: string;
}

export interface ErrorJson {
  error: ErrorBody;
}

export interface ExampleJson {
  lookup_id: number;
  id: string;
}

export interface ExplainParams {
  id: string;
  peers?: boolean;
}

export interface FailureGroupJson {
  key: string;
  exception_type: string | null;
  exception_message: string | null;
  frame: string | null;
  class: string;
  message_type: string | null;
  count: number;
  first_time: string;
  last_time: string;
  failed_queues: Array<string>;
  examples: Array<ExampleJson>;
}

export interface FailuresJson {
  groups: Array<FailureGroupJson>;
  others: number;
  scanned: number;
  next: string | null;
}

export interface FailuresParams {
  queue: string;
  where?: string;
  similar?: boolean;
  after?: string;
}

export interface FileParams {
  queue: string;
  station?: string | null;
  number: number;
  offset?: number;
  count?: number;
}

export interface FindParams {
  where: string;
  after?: string;
  limit?: number;
  bodies?: boolean;
  decode?: boolean;
}

export interface FinishBody {
  charge?: number;
  result?: string;
}

export interface ForgottenJson {
  dry_run: boolean;
  done: boolean;
}

export interface GrantBody {
  who: string;
  rights: Array<"change-permissions" | "delete" | "full" | "get-permissions" | "get-properties" | "journal" | "peek" | "properties" | "purge" | "receive" | "send" | "set-properties" | "take-ownership">;
}

export interface GroupJson {
  name: string;
  queue: string;
  mode: "consume" | "observe";
  position: number;
  claim_after: number;
  claimed: number;
  claimed_messages: number;
  stream: string;
  epoch: number;
  owner: string;
  leased: boolean;
  lease_left_ms: number;
  lag_messages: number;
  lag_bytes: number;
  acknowledged: number;
  received_elsewhere: number;
  expired: number;
  purged: number;
  moved_away: number;
  created_time: string;
  last_time: string;
}

export interface GroupListJson {
  groups: Array<GroupJson>;
  next: number | null;
}

export interface GroupParams {
  queue: string;
  group: string;
}

export interface GroupsParams {
  offset?: number;
  limit?: number;
}

export interface HeldLeaseJson {
  lease: string;
  user: string;
  token: string;
  queue: string;
  messages: number;
  ends_time: string;
}

export interface HistoryJson {
  span: string;
  interval_s: number;
  times: Array<string>;
  accepted: Array<number>;
  received: Array<number>;
  messages: Array<number>;
  bytes: Array<number>;
  oldest_age_s: Array<number>;
  dead_letters: Array<number>;
  outgoing: Array<number>;
  disk_free: Array<number | null>;
}

export interface HistoryParams {
  span?: "day" | "hour";
}

export interface HolderJson {
  user: string;
  by: "lease" | "reader";
  messages: number;
}

export interface IdentityBody {
  manager?: string;
  incarnation?: string;
  created?: string;
}

export interface IdentityJson {
  incarnation: string;
  created: string;
  loss: "" | "beyond" | "incarnation" | "manager" | "queue";
}

export interface IncomingSequenceJson {
  source: string;
  format_name: string;
  sequence: string;
  number: number;
  last_time: string | null;
  rejected: number;
  address: string;
  vouched: boolean;
}

export interface JobBody {
  type?: number;
  description?: string;
  description_bytes?: string | null;
  target_server?: string;
  target_server_id?: number | null;
  target_time?: string | null;
  target_execution_time?: string | null;
  auto_start?: boolean;
  restart?: boolean;
  user_hold?: boolean;
  operator_hold?: boolean;
  record?: string;
  response_queue?: string;
  file?: string | null;
}

export interface JobChangeBody {
  type?: number;
  description?: string;
  description_bytes?: string;
  target_server?: string;
  target_server_id?: number;
  target_time?: string | null;
  target_execution_time?: string;
  auto_start?: boolean;
  restart?: boolean;
  user_hold?: boolean;
  operator_hold?: boolean;
  record?: string;
}

export interface JobEndJson {
  id: number;
  queue: string;
  queue_id: number;
  number: number;
  type: number;
  description: string;
  owner: string;
  owner_id: number;
  entry_time: string;
  begin_time: string | null;
  end_time: string;
  server: string;
  server_id: number;
  outcome: string;
  charge: number;
  attempts: number;
  file_size: number;
  result: string;
}

export interface JobHistoryJson {
  jobs: Array<JobEndJson>;
  next: number | null;
}

export interface JobJson {
  queue: string;
  queue_id: number;
  number: number;
  position: number;
  next: number;
  type: number;
  description: string;
  description_bytes: string;
  flags: Array<"auto_start" | "entry_open" | "operator_hold" | "restart" | "user_hold">;
  owner: string;
  owner_id: number;
  station: number;
  task: number;
  target_server: string;
  target_server_id: number;
  target_time: string | null;
  target_execution_time: string;
  entry_time: string;
  job_entry_time: string;
  file_name: string;
  file_handle: number;
  file_size: number;
  record: string;
  server: string;
  server_id: number;
  server_station: number;
  server_task: number;
  progress: ProgressJson | null;
  attempts: number;
  failure: string;
  response_queue: string;
  id: number;
}

export interface JobListJson {
  jobs: Array<JobJson>;
  total: number;
  next: number | null;
}

export interface JobNumbersJson {
  total: number;
  numbers: Array<number>;
}

export interface JobParams {
  queue: string;
  station?: string | null;
  number: number;
}

export interface JobPositionBody {
  position: number;
}

export interface JobQueueCreateBody {
  name: string;
  type?: string;
  path?: string;
  users?: Array<string>;
  operators?: Array<string>;
  servers?: Array<string>;
}

export interface JobQueueJson {
  id: number;
  name: string;
  type: string;
  status: Array<"no_new_jobs" | "no_new_servers" | "no_service"> | null;
  jobs: number | null;
  servers: Array<AttachedJson> | null;
  users: Array<string> | null;
  operators: Array<string> | null;
  listed_servers: Array<string> | null;
  directory: string | null;
  submit_from: string;
  response_queue: string;
}

export interface JobQueueListJson {
  queues: Array<JobQueueJson>;
  next: number | null;
}

export interface JobQueueParams {
  queue: string;
  station?: string | null;
}

export interface JobQueueSetBody {
  status?: Array<"no_new_jobs" | "no_new_servers" | "no_service">;
  submit_from?: string;
  response_queue?: string;
}

export interface JobQueueStatusJson {
  id: number;
  status: Array<"no_new_jobs" | "no_new_servers" | "no_service">;
  jobs: number;
  servers: Array<AttachedJson>;
}

export interface JobQueuesParams {
  after?: number;
  limit?: number;
  station?: string | null;
}

export interface JobSizeJson {
  size: number;
}

export interface JobsHistoryParams {
  queue?: string | null;
  after?: number;
  limit?: number;
  station?: string | null;
}

export interface JobsParams {
  queue: string;
  station?: string | null;
  start?: number;
  limit?: number;
}

export interface LeaseBody {
  mode: "consume" | "observe";
  owner: string;
  epoch?: number | null;
  position?: number | "earliest" | "latest" | null;
  end?: boolean;
}

export interface LeaseEndBody {
  outcome?: "received" | "returned";
  lookup_ids?: Array<number> | null;
}

export interface LeaseJson {
  lease: string;
  ended: number;
  left: Array<number>;
  lease_s: number;
}

export interface LeaseListJson {
  leases: Array<HeldLeaseJson>;
  left_out: number;
}

export interface LeaseParams {
  id: string;
}

export interface LeaseReleasedJson {
  lease: string;
  messages: number;
}

export interface LeaseRenewBody {
  lease_s?: number;
}

export interface LeasedJson {
  messages: Array<MessageJson>;
  reason: string;
  lease: string;
  lease_s: number;
}

export interface LeasesParams {
  queue?: string | null;
  user?: string | null;
}

export interface LifeJson {
  id: string;
  places: Array<PlaceJson>;
  answer: string;
  departures: Array<DepartureJson>;
  peers: Array<PeerAnswerJson>;
  refusals: Array<RefusedMessageJson>;
  skipped: Array<SkippedJson>;
}

export interface LinkPart {
  sites: Array<string>;
  cost: number;
  gates: Array<string>;
  description: string;
  guid: string;
}

export interface ListPart {
  name: string;
  guid: string;
  members: Array<string>;
}

export interface LogLineJson {
  number: number;
  time: string;
  level: string;
  event: string;
  text: string;
}

export interface LogTailJson {
  lines: Array<LogLineJson>;
  after: number;
  left_out: number;
}

export interface LogTailParams {
  after?: number;
  wait_ms?: number;
  limit?: number;
  level?: "debug" | "error" | "info" | "warning";
}

export interface LoginBody {
  name: string;
  type?: string;
  password?: string | null;
}

export interface MachineKeysJson {
  name: string;
  guid: string;
  certificate: string;
  public_keys: string;
}

export interface MachinePart {
  name: string;
  guid: string;
  dns_name: string;
  addresses: Array<string>;
  sites: Array<string>;
  routing_server: boolean;
  in_routing_servers: Array<string>;
  out_routing_servers: Array<string>;
  foreign: boolean;
  networks: Array<string> | null;
  quota_kib: number | null;
  journal_quota_kib: number | null;
  version: string | null;
  system: "foreign" | "other" | "win95" | "win_client" | "win_ent" | "win_server" | null;
  system_version: string | null;
  directory_server: boolean | null;
  directory_server_type: "backup site controller" | "primary enterprise controller" | "primary site controller" | "standalone" | null;
  supporting_server: boolean | null;
  remote_access_server: boolean | null;
  clustered: boolean | null;
  encryption_keys: string | null;
  signing_keys: string | null;
  security: string | null;
  created: string | null;
  modified: string | null;
}

export interface MemberBody {
  name: string;
  type?: string;
}

export interface MemberJson {
  id: number;
  type: string;
  name: string;
}

export interface MembershipJson {
  member: boolean;
}

export interface MessageJson {
  id: string;
  lookup_id: number;
  queue: string;
  label: string;
  body: string | null;
  body_text: string | null;
  body_type: number;
  body_size: number;
  priority: number;
  class: string;
  class_code: number;
  delivery: string;
  correlation_id: string;
  sent_time: string;
  arrived_time: string;
  source_queue_manager: string;
  destination: string;
  admin_queue: string;
  response_queue: string;
  acknowledge: Array<string>;
  journal: Array<string>;
  app_specific: number;
  connector_type: string;
  trace: string;
  time_to_be_received: number | null;
  authenticated: boolean;
  encrypted: boolean;
  sender: string;
  extension: string | null;
  transaction: TransactionJson | null;
  abort_count: number;
  move_count: number;
  code_page: string;
  move_reason: string;
  traceparent: string;
  tracestate: string;
  decoded: unknown;
}

export interface MessageListJson {
  messages: Array<MessageJson>;
  reason: string;
}

export interface MessagePageJson {
  messages: Array<MessageJson>;
  next: string | null;
  scanned: number;
  skipped: Array<SkippedJson>;
}

export interface MessageParams {
  queue: string;
  lookup_id: number;
}

export interface MessagesParams {
  queue: string;
  where?: string;
  after?: string;
  limit?: number;
  bodies?: boolean;
  decode?: boolean;
}

export interface MoveBody {
  to: string;
}

export interface MoveMessagesBody {
  where?: string | null;
  lookup_ids?: Array<number> | null;
  dry_run?: boolean;
  to: string;
  reason?: string;
}

export interface MovedJson {
  number: number;
}

export interface NetworkPart {
  name: string;
  guid: string;
  security: string | null;
}

export interface Nothing {
}

export interface ObjectCreateBody {
  name: string;
  type: string;
  security?: number;
  dynamic?: boolean;
}

export interface ObjectIdParams {
  station?: string | null;
  id: number;
}

export interface ObjectJson {
  id: number;
  type: string;
  type_number: number;
  name: string;
  dynamic: boolean;
  security: number;
  properties: boolean;
}

export interface ObjectListJson {
  objects: Array<ObjectJson>;
  next: number | null;
}

export interface ObjectParams {
  station?: string | null;
  type: string;
  name: string;
}

export interface ObjectPasswordBody {
  password: string;
  old?: string;
}

export interface ObjectSetBody {
  name?: string;
  security?: number;
}

export interface ObjectsParams {
  station?: string | null;
  type?: string;
  name?: string;
  after?: number;
  limit?: number;
}

export interface OfferBody {
  epoch: number;
  messages: Array<OfferJson>;
}

export interface OfferJson {
  lookup_id: number;
  packet: string;
  arrived: number;
  class_code: number;
}

export interface OnlineJson {
  online: boolean;
}

export interface OperationBody {
  act: "copy" | "delete" | "move" | "resend" | "return";
  queue: string;
  to?: string | null;
  where?: string | null;
  lookup_ids?: Array<number> | null;
  group?: string | null;
  dry_run?: boolean;
  key?: string | null;
}

export interface OperationJson {
  id: number;
  act: string;
  queue: string;
  to: string;
  where: string | null;
  lookup_ids: number;
  group: string;
  dry_run: boolean;
  user: string;
  state: string;
  begun_time: string;
  changed_time: string;
  total: number;
  scanned: number;
  matched: number;
  done: number;
  gone: number;
  refused: number;
  error: string;
  sample: Array<number>;
}

export interface OperationListJson {
  operations: Array<OperationJson>;
}

export interface OperationParams {
  operation: number;
}

export interface OutgoingJson {
  sent: number;
  unsent: number;
  unacknowledged: number;
  unread: number;
  delivered: number;
  failed: number;
  next_retry_time: string | null;
  last_error: string;
  next_hops: Array<string>;
  sequence: OutgoingSequenceJson | null;
}

export interface OutgoingSequenceJson {
  first_unacknowledged: SequencePlaceJson | null;
  last_unacknowledged: SequencePlaceJson | null;
  last_acknowledged: SequencePlaceJson | null;
  next: SequencePlaceJson;
  unacknowledged: number;
  unread: number;
  last_acknowledged_time: string | null;
  acknowledgments: number;
  resends: number;
  resend_interval_s: number;
  resend_time: string | null;
}

export interface PasswordBody {
  password: string;
}

export interface PeerAddBody {
  name: string;
  guid: string;
  url: string;
  key?: string | null;
}

export interface PeerAddedJson {
  peer: PeerJson;
  key: string | null;
}

export interface PeerAnswerJson {
  name: string;
  answer: string;
  places: Array<PlaceJson>;
  departures: Array<DepartureJson>;
  refusals: Array<RefusedMessageJson>;
  error: string;
}

export interface PeerJson {
  name: string;
  guid: string;
  url: string;
  created_time: string;
}

export interface PeerListJson {
  peers: Array<PeerJson>;
}

export interface PeerParams {
  name: string;
}

export interface PlaceJson {
  queue: string;
  lookup_id: number;
  state: "locked" | "waiting";
  class: string;
  class_code: number;
  meaning: string;
  arrived_time: string;
  abort_count: number;
  move_count: number;
  reason: string;
}

export interface PlaceParams {
  queue: string;
}

export interface PlanBody {
  queues: Array<PlanQueueBody>;
  wait_ms?: number;
}

export interface PlanJson {
  queue_manager: string;
  guid: string;
  queues: Array<PlanQueueJson>;
  identities: Array<IdentityJson>;
}

export interface PlanQueueBody {
  queue: string;
  after?: number;
  group?: string;
  since?: number | null;
  max_messages?: number | null;
  max_bytes?: number | null;
  through?: number | null;
  identity?: IdentityBody | null;
}

export interface PlanQueueJson {
  queue: string;
  earliest: number;
  latest: number;
  after: number;
  end: number;
  messages: number;
  bytes: number;
  purged_through: number;
  created_time: string;
}

export interface PositionBody {
  position: number | "earliest" | "latest";
}

export interface ProgressBody {
  done?: number;
  total?: number;
  text?: string;
}

export interface ProgressJson {
  done: number;
  total: number;
  text: string;
}

export interface PropertyCreateBody {
  property: string;
  set?: boolean;
  security?: number;
  dynamic?: boolean;
}

export interface PropertyJson {
  property: string;
  set: boolean;
  dynamic: boolean;
  security: number;
  value: string | null;
  members: Array<MemberJson> | null;
}

export interface PropertyListJson {
  properties: Array<PropertyJson>;
}

export interface PropertyParams {
  station?: string | null;
  type: string;
  name: string;
  property: string;
}

export interface PropertySetBody {
  value?: string;
  segment?: number;
  more?: boolean;
  security?: number;
}

export interface PublicQueueJson {
  path: string;
  guid: string;
  format_name: string;
  machine_guid: string;
  label: string;
  type: string;
  transactional: boolean;
  authenticated: boolean;
  journaling: boolean;
  created_time: string;
  modified_time: string;
}

export interface PublicQueueListJson {
  queues: Array<PublicQueueJson>;
  left_off: number;
}

export interface PublishBody {
  query: string;
  batch: number;
  stages: Array<[number, number]>;
  content?: string;
  run?: string;
  writer?: string;
}

export interface PublishedJson {
  messages: number;
  already: boolean;
}

export interface PullBeginBody {
  guid: string;
  source: string;
  queue: string;
  host?: string;
  keep?: boolean;
}

export interface PullEndBody {
  epoch: number;
}

export interface PullJson {
  id: number;
  guid: string;
  source: string;
  host: string;
  queue: string;
  epoch: number;
  running: boolean;
  messages: number;
  bytes: number;
  begun_time: string;
  last_time: string | null;
  copies: number;
}

export interface PullListJson {
  pulls: Array<PullJson>;
}

export interface PullParams {
  id: number;
}

export interface PulledJson {
  lookup_id: number;
  digest: string;
  copied: boolean;
}

export interface PulledListJson {
  messages: Array<PulledJson>;
  next: number | null;
}

export interface PulledParams {
  id: number;
  after?: number;
  limit?: number;
}

export interface QueryBody {
  statement: string;
  rows?: number;
}

export interface QueryColumnJson {
  name: string;
  kind: string;
}

export interface QueryJson {
  query: string;
  batch: number | null;
  messages: number;
  published_time: string | null;
  stages: number;
}

export interface QueryParams {
  query: string;
}

export interface QueryResultJson {
  columns: Array<QueryColumnJson>;
  rows: Array<Array<unknown>>;
  more: boolean;
  ms: number;
  count: number;
}

export interface QueueCreateBody {
  path: string;
  label?: string;
  transactional?: boolean;
  journal?: boolean;
  authenticated?: boolean;
  privacy?: "body" | "none" | "optional";
  quota_kib?: number | null;
  journal_quota_kib?: number | null;
  base_priority?: number;
  multicast?: string;
  type_id?: string | null;
  code_page?: string;
  max_aborts?: number;
  poison_queue?: string;
  retry_delays_s?: Array<number>;
}

export interface QueueGroupsParams {
  queue: string;
}

export interface QueueJson {
  number: number;
  path: string;
  format_name: string;
  guid_name: string;
  kind: string;
  label: string;
  type_id: string;
  transactional: boolean;
  journal: boolean;
  authenticated: boolean;
  privacy: "body" | "none" | "optional";
  quota_kib: number | null;
  journal_quota_kib: number | null;
  base_priority: number;
  multicast: string;
  created_time: string;
  modified_time: string;
  messages: number;
  locked: number;
  bytes: number;
  journal_messages: number;
  oldest_age_s: number | null;
  accepted_per_s: number;
  received_per_s: number;
  readers: number;
  waiting_readers: number;
  state: string;
  connections: Array<ConnectionJson>;
  outgoing: OutgoingJson | null;
  incoming: Array<IncomingSequenceJson>;
  groups: Array<GroupJson>;
  purged_through: number;
  reason: string;
  claimed: number;
  code_page: string;
  max_aborts: number;
  poison_queue: string;
  retry_delays_s: Array<number>;
  retry_waiting: number;
  holders: Array<HolderJson>;
}

export interface QueueListJson {
  queues: Array<QueueJson>;
  next: number | null;
}

export interface QueueParams {
  queue: string;
}

export interface QueuePart {
  path: string;
  guid: string;
  label: string;
  type: string;
  transactional: boolean;
  authenticated: boolean;
  journaling: boolean | null;
  privacy: "body" | "none" | "optional" | null;
  quota_kib: number | null;
  journal_quota_kib: number | null;
  base_priority: number | null;
  multicast_address: string | null;
  qualified_path: string | null;
  machine: string | null;
  security: string | null;
  created: string | null;
  modified: string | null;
}

export interface QueuePlaceJson {
  format_name: string;
  path: string;
  machine: string;
  hosts: Array<string>;
}

export interface QueueSearchParams {
  type?: string | null;
  label?: string | null;
  machine?: string | null;
  created_after?: string | null;
  created_before?: string | null;
  modified_after?: string | null;
  modified_before?: string | null;
  limit?: number;
}

export interface QueueSetBody {
  label?: string;
  journal?: boolean;
  authenticated?: boolean;
  privacy?: "body" | "none" | "optional";
  quota_kib?: number | null;
  journal_quota_kib?: number | null;
  base_priority?: number;
  multicast?: string;
  type_id?: string;
  code_page?: string;
  max_aborts?: number;
  poison_queue?: string;
  retry_delays_s?: Array<number>;
}

export interface QueuesParams {
  outgoing?: boolean;
  system?: boolean;
  after?: number;
  limit?: number;
}

export interface ReceiveBody {
  count?: number;
  timeout_ms?: number;
  lookup_id?: number | null;
  decode?: boolean;
}

export interface RecordPlaceJson {
  file: string;
  offset: number;
}

export interface RefusedListJson {
  messages: Array<RefusedMessageJson>;
  next: number | null;
}

export interface RefusedMessageJson {
  id: string;
  label: string;
  queue: string;
  reason: string;
  cause: string;
  address: string;
  first_time: string;
  last_time: string;
  times: number;
  dead_letter: boolean;
}

export interface RefusedOfferJson {
  lookup_id: number;
  error: ErrorBody;
}

export interface RefusedParams {
  limit?: number;
  after?: number;
}

export interface ReleaseBody {
  stream?: string | null;
}

export interface ReleasedJson {
  name: string;
  queue: string;
  mode: "consume" | "observe";
  position: number;
  claim_after: number;
  claimed: number;
  claimed_messages: number;
  stream: string;
  epoch: number;
  owner: string;
  leased: boolean;
  lease_left_ms: number;
  lag_messages: number;
  lag_bytes: number;
  acknowledged: number;
  received_elsewhere: number;
  expired: number;
  purged: number;
  moved_away: number;
  created_time: string;
  last_time: string;
  released: number;
}

export interface ResendBody {
  where?: string | null;
  lookup_ids?: Array<number> | null;
  dry_run?: boolean;
  to?: string | null;
}

export interface ResetJson {
  sequences: number;
  messages: number;
  dry_run: boolean;
}

export interface ResetParams {
  queue: string;
  source?: string;
  address?: string;
  dry_run?: boolean;
}

export interface ReturnBody {
  where?: string | null;
  lookup_ids?: Array<number> | null;
  dry_run?: boolean;
  group?: string | null;
  to?: string | null;
  after?: string | null;
  skip?: Array<string>;
}

export interface ReturnJson {
  matched: number;
  done: number;
  gone: number;
  refused: number;
  targets: Array<ReturnTargetJson>;
  skip: Array<string>;
  scanned: number;
  next: string | null;
  dry_run: boolean;
}

export interface ReturnTargetJson {
  to: string;
  messages: number;
  done: number;
  error: ErrorBody | null;
}

export interface RevokeBody {
  who: string;
}

export interface RouteJson {
  steps: Array<RouteStepJson>;
}

export interface RouteParams {
  source: string;
  target: string;
}

export interface RouteStepJson {
  source: string;
  target: string;
  rule: string;
}

export interface SelectBody {
  where?: string | null;
  lookup_ids?: Array<number> | null;
  dry_run?: boolean;
}

export interface SelectToBody {
  where?: string | null;
  lookup_ids?: Array<number> | null;
  dry_run?: boolean;
  to: string;
}

export interface SendBody {
  label?: string;
  body?: string;
  body_text?: string | null;
  body_type?: number;
  formatter?: BodyFormatter | null;
  priority?: number;
  delivery?: "express" | "recoverable" | "transactional";
  correlation_id?: string;
  admin_queue?: string;
  response_queue?: string;
  dead_letter_queue?: string;
  acknowledge?: Array<"neg-arrival" | "neg-receive" | "pos-arrival" | "pos-receive">;
  journal?: Array<"negative" | "positive">;
  app_specific?: number;
  connector_type?: string | null;
  trace?: string;
  time_to_reach_queue?: number | null;
  time_to_be_received?: number | null;
  extension?: string;
  sign?: boolean;
  encrypt?: boolean;
  traceparent?: string;
  tracestate?: string;
  once?: SendOnce | null;
}

export interface SendOnce {
  series: string;
  number: number;
}

export interface SentJson {
  id: string;
}

export interface SequencePlaceJson {
  sequence: string;
  number: number;
  previous: number;
}

export interface SequencesJson {
  queue: string;
  incoming: Array<IncomingSequenceJson>;
  turned_away: Array<TurnedAwayJson>;
  conflicts: Array<ConflictJson>;
  outgoing: OutgoingSequenceJson | null;
}

export interface ServerParams {
  queue: string;
  station?: string | null;
  server: number;
  server_station: number;
}

export interface ServerStatusBody {
  record: string;
}

export interface ServerStatusJson {
  record: string;
}

export interface ServiceBody {
  types?: Array<number>;
}

export interface SessionJson {
  name: string;
  version: string;
  user: string;
  role: string;
  administrator: boolean;
  idle_s: number;
  page_key: string;
}

export interface ShowMessageParams {
  queue: string;
  lookup_id: number;
  decode?: boolean;
}

export interface SignInBody {
  token?: string;
  user?: string;
  password?: string;
}

export interface SitePart {
  name: string;
  guid: string;
  foreign: boolean;
  primary_site_controller: string | null;
  intra_site_replication_interval_s: number | null;
  inter_site_replication_interval_s: number | null;
  migrated_from_msmq10: boolean | null;
  signing_keys: string | null;
  security: string | null;
}

export interface SkippedJson {
  queue: string;
  reason: string;
}

export interface SplitBody {
  queue: string;
  through: number;
  after?: number;
  parts?: number;
  max_records?: number | null;
}

export interface SplitJson {
  cuts: Array<CutJson>;
}

export interface StageJson {
  query: string;
  batch: number;
  partition: number;
  attempt: number;
  messages: number;
  bytes: number;
  created_time: string;
  expires_time: string;
}

export interface StageListJson {
  stages: Array<StageJson>;
  left_out: number;
}

export interface StageParams {
  query: string;
  batch: number;
  partition: number;
  attempt: number;
  queue?: string;
  content?: string;
  run?: string;
  writer?: string;
}

export interface StagedJson {
  messages: number;
  bytes: number;
  already: boolean;
}

export interface StationBody {
  name?: string;
  type?: string;
  password?: string | null;
  task?: number;
}

export interface StationJson {
  station: string;
  number: number;
  task: number;
  object_id: number;
  name: string;
  type: string;
  lease_s: number;
}

export interface StationParams {
  station: string;
}

export interface StationTokenJson {
  token: string;
  user: string;
  expires: string;
}

export interface StatusJson {
  name: string;
  guid: string;
  version: string;
  state: string;
  online: boolean;
  queues: number;
  messages: number;
  bytes: number;
  transactions: number | null;
  in_doubt: number | null;
  throttled: Array<string>;
  refusals: Array<CountedJson>;
  url: string;
  directory: DirectoryStatusJson;
  time: string;
  ready: boolean;
  not_ready: Array<string>;
  dead_letters: Array<CountedJson>;
  unreachable: Array<UnreachableJson>;
  claims: Array<ClaimJson>;
  damaged: number;
  clocks: Array<ClockJson>;
  problems: Array<string>;
  host_change: string;
  domain_trouble: string;
  takes_any_name: boolean;
  own_hosts: Array<string>;
  refused_names: Array<string>;
}

export interface TailJson {
  messages: Array<MessageJson>;
  after: number;
}

export interface TailParams {
  queue: string;
  after?: number;
  wait_ms?: number;
  limit?: number;
  bodies?: boolean;
}

export interface TakeBody {
  count?: number;
  timeout_ms?: number;
  lease_s?: number;
  decode?: boolean;
}

export interface TakenJson {
  taken: number;
  known: number;
  refused: Array<RefusedOfferJson>;
  stopped: ErrorBody | null;
  left: number;
  stay: Array<number>;
}

export interface TokenBody {
  code?: boolean;
}

export interface TokenCreateBody {
  user?: string;
  role?: "administer" | "look" | "metrics" | "operate" | "read";
  queues?: Array<string>;
  expires?: string | null;
}

export interface TokenCreatedJson {
  token: string;
  info: TokenJson;
}

export interface TokenJson {
  id: string;
  user: string;
  role: "administer" | "look" | "metrics" | "operate" | "read";
  queues: Array<string>;
  expires: string | null;
  created_time: string;
}

export interface TokenListJson {
  tokens: Array<TokenJson>;
}

export interface TokenParams {
  id: string;
}

export interface TransactionInfoJson {
  id: string;
  state: string;
  operations: number;
  bytes: number;
  coordinator: string;
  participants: Array<string>;
  prepared_time: string | null;
  decided_time: string | null;
  idle_s: number;
}

export interface TransactionJson {
  id: number;
  first: boolean;
  last: boolean;
}

export interface TransactionListJson {
  transactions: Array<TransactionInfoJson>;
}

export interface TransactionParams {
  id: string;
}

export interface TurnedAwayJson {
  source: string;
  address: string;
  format_name: string;
  place: SequencePlaceJson;
  messages: number;
  since: string | null;
  last_time: string | null;
}

export interface UnreachableJson {
  queue: string;
  messages: number;
  reason: string;
}

export interface UserCreateBody {
  name: string;
  doors?: Array<"http" | "ncp" | "rpc">;
  administrator?: boolean;
  password?: string | null;
  role?: "administer" | "look" | "metrics" | "operate" | "read" | null;
}

export interface UserJson {
  name: string;
  sid: string;
  administrator: boolean;
  doors: Array<string>;
  shut: Array<string>;
  password: boolean;
  disabled: boolean;
  created_time: string;
  role: "administer" | "look" | "metrics" | "operate" | "read" | null;
}

export interface UserListJson {
  users: Array<UserJson>;
}

export interface UserParams {
  name: string;
}

export interface UserPart {
  sid: string;
  name: string;
  guid: string;
  certificates: Array<string>;
}

export interface UserSetBody {
  doors?: Array<"http" | "ncp" | "rpc">;
  administrator?: boolean;
  disabled?: boolean;
  role?: "administer" | "look" | "metrics" | "operate" | "read" | null;
}

export interface Routes {
  show_status: { params: Nothing; body: Nothing; result: StatusJson };
  show_history: { params: HistoryParams; body: Nothing; result: HistoryJson };
  show_books: { params: BooksParams; body: Nothing; result: BooksListJson };
  list_queues: { params: QueuesParams; body: Nothing; result: QueueListJson };
  create_queue: { params: Nothing; body: QueueCreateBody; result: QueueJson };
  show_queue: { params: QueueParams; body: Nothing; result: QueueJson };
  set_queue: { params: QueueParams; body: QueueSetBody; result: QueueJson };
  delete_queue: { params: DryRunParams; body: Nothing; result: CountJson };
  purge_queue: { params: DryRunParams; body: Nothing; result: CountJson };
  pause_queue: { params: QueueParams; body: Nothing; result: QueueJson };
  resume_queue: { params: QueueParams; body: Nothing; result: QueueJson };
  retry_queue: { params: QueueParams; body: Nothing; result: QueueJson };
  show_sequences: { params: QueueParams; body: Nothing; result: SequencesJson };
  reset_sequence: { params: ResetParams; body: Nothing; result: ResetJson };
  show_access: { params: QueueParams; body: Nothing; result: AccessJson };
  set_access: { params: QueueParams; body: AccessSetBody; result: AccessJson };
  grant: { params: QueueParams; body: GrantBody; result: Done };
  deny: { params: QueueParams; body: GrantBody; result: Done };
  revoke: { params: QueueParams; body: RevokeBody; result: Done };
  list_messages: { params: MessagesParams; body: Nothing; result: MessagePageJson };
  send_message: { params: QueueParams; body: SendBody; result: SentJson };
  tail_queue: { params: TailParams; body: Nothing; result: TailJson };
  show_message: { params: ShowMessageParams; body: Nothing; result: MessageJson };
  receive_message: { params: MessageParams; body: Nothing; result: MessageJson };
  receive_messages: { params: QueueParams; body: ReceiveBody; result: MessageListJson };
  lease_messages: { params: QueueParams; body: TakeBody; result: LeasedJson };
  list_leases: { params: LeasesParams; body: Nothing; result: LeaseListJson };
  release_lease: { params: LeaseParams; body: Nothing; result: LeaseReleasedJson };
  end_lease: { params: LeaseParams; body: LeaseEndBody; result: LeaseJson };
  renew_lease: { params: LeaseParams; body: LeaseRenewBody; result: LeaseJson };
  move_messages: { params: QueueParams; body: MoveMessagesBody; result: BulkJson };
  copy_messages: { params: QueueParams; body: SelectToBody; result: BulkJson };
  delete_messages: { params: QueueParams; body: SelectBody; result: BulkJson };
  resend_messages: { params: QueueParams; body: ResendBody; result: BulkJson };
  return_messages: { params: QueueParams; body: ReturnBody; result: ReturnJson };
  begin_operation: { params: Nothing; body: OperationBody; result: OperationJson };
  list_operations: { params: Nothing; body: Nothing; result: OperationListJson };
  show_operation: { params: OperationParams; body: Nothing; result: OperationJson };
  stop_operation: { params: OperationParams; body: Nothing; result: OperationJson };
  resume_operation: { params: OperationParams; body: Nothing; result: OperationJson };
  forget_operation: { params: OperationParams; body: Nothing; result: ForgottenJson };
  list_failures: { params: FailuresParams; body: Nothing; result: FailuresJson };
  find_messages: { params: FindParams; body: Nothing; result: MessagePageJson };
  explain_message: { params: ExplainParams; body: Nothing; result: LifeJson };
  list_refused: { params: RefusedParams; body: Nothing; result: RefusedListJson };
  read_arrow: { params: ArrowParams; body: Nothing; result: Nothing };
  plan_reads: { params: Nothing; body: PlanBody; result: PlanJson };
  split_range: { params: Nothing; body: SplitBody; result: SplitJson };
  run_query: { params: Nothing; body: QueryBody; result: QueryResultJson };
  list_groups: { params: GroupsParams; body: Nothing; result: GroupListJson };
  list_queue_groups: { params: QueueGroupsParams; body: Nothing; result: GroupListJson };
  show_group: { params: GroupParams; body: Nothing; result: GroupJson };
  lease_group: { params: GroupParams; body: LeaseBody; result: GroupJson };
  claim_messages: { params: GroupParams; body: ClaimBody; result: GroupJson };
  acknowledge_messages: { params: GroupParams; body: AcknowledgeBody; result: AcknowledgedJson };
  release_group: { params: GroupParams; body: ReleaseBody; result: ReleasedJson };
  set_group: { params: GroupParams; body: PositionBody; result: GroupJson };
  delete_group: { params: GroupParams; body: Nothing; result: Done };
  put_stage: { params: StageParams; body: Nothing; result: StagedJson };
  list_stages: { params: Nothing; body: Nothing; result: StageListJson };
  discard_batch: { params: BatchParams; body: Nothing; result: DiscardedJson };
  publish_batch: { params: Nothing; body: PublishBody; result: PublishedJson };
  show_query: { params: QueryParams; body: Nothing; result: QueryJson };
  forget_query: { params: QueryParams; body: Nothing; result: Done };
  list_pulls: { params: Nothing; body: Nothing; result: PullListJson };
  begin_pull: { params: Nothing; body: PullBeginBody; result: PullJson };
  list_pulled: { params: PulledParams; body: Nothing; result: PulledListJson };
  take_messages: { params: PullParams; body: OfferBody; result: TakenJson };
  end_pull: { params: PullParams; body: PullEndBody; result: Done };
  forget_pull: { params: PullParams; body: Nothing; result: Done };
  show_audit: { params: AuditParams; body: Nothing; result: AuditPageJson };
  tail_log: { params: LogTailParams; body: Nothing; result: LogTailJson };
  list_users: { params: Nothing; body: Nothing; result: UserListJson };
  add_user: { params: Nothing; body: UserCreateBody; result: UserJson };
  show_user: { params: UserParams; body: Nothing; result: UserJson };
  set_user: { params: UserParams; body: UserSetBody; result: UserJson };
  delete_user: { params: UserParams; body: Nothing; result: Done };
  set_password: { params: UserParams; body: PasswordBody; result: Done };
  list_tokens: { params: Nothing; body: Nothing; result: TokenListJson };
  create_token: { params: Nothing; body: TokenCreateBody; result: TokenCreatedJson };
  revoke_token: { params: TokenParams; body: Nothing; result: Done };
  list_certificates: { params: Nothing; body: Nothing; result: CertificateListJson };
  make_keys: { params: Nothing; body: CertificateMakeBody; result: CertificateJson };
  import_certificate: { params: UserParams; body: CertificateImportBody; result: CertificateJson };
  trust_certificate: { params: Nothing; body: CertificateTrustBody; result: CertificateJson };
  export_keys: { params: Nothing; body: Nothing; result: MachineKeysJson };
  remove_certificate: { params: CertificateParams; body: Nothing; result: Done };
  list_transactions: { params: Nothing; body: Nothing; result: TransactionListJson };
  commit_transaction: { params: TransactionParams; body: Nothing; result: Done };
  abort_transaction: { params: TransactionParams; body: Nothing; result: Done };
  list_damage: { params: Nothing; body: Nothing; result: DamageListJson };
  accept_damage: { params: Nothing; body: DamageAcceptBody; result: Done };
  list_peers: { params: Nothing; body: Nothing; result: PeerListJson };
  add_peer: { params: Nothing; body: PeerAddBody; result: PeerAddedJson };
  remove_peer: { params: PeerParams; body: Nothing; result: Done };
  show_directory: { params: Nothing; body: Nothing; result: Document };
  import_directory: { params: Nothing; body: DirectoryImportBody; result: DirectoryChangeJson };
  remove_from_directory: { params: Nothing; body: DirectoryRemoveBody; result: DirectoryChangeJson };
  refresh_directory: { params: Nothing; body: Nothing; result: DirectoryStatusJson };
  show_route: { params: RouteParams; body: Nothing; result: RouteJson };
  find_queues: { params: QueueSearchParams; body: Nothing; result: PublicQueueListJson };
  enter_user: { params: Nothing; body: DirectoryUserBody; result: DirectoryChangeJson };
  show_place: { params: PlaceParams; body: Nothing; result: QueuePlaceJson };
  take_offline: { params: Nothing; body: Nothing; result: OnlineJson };
  bring_online: { params: Nothing; body: Nothing; result: OnlineJson };
  make_backup: { params: Nothing; body: BackupBody; result: BackupJson };
  list_objects: { params: ObjectsParams; body: Nothing; result: ObjectListJson };
  create_object: { params: BinderyParams; body: ObjectCreateBody; result: ObjectJson };
  show_object: { params: ObjectParams; body: Nothing; result: ObjectJson };
  set_object: { params: ObjectParams; body: ObjectSetBody; result: ObjectJson };
  delete_object: { params: ObjectParams; body: Nothing; result: Done };
  set_object_password: { params: ObjectParams; body: ObjectPasswordBody; result: Done };
  verify_object_password: { params: ObjectParams; body: ObjectPasswordBody; result: Done };
  show_object_of_id: { params: ObjectIdParams; body: Nothing; result: ObjectJson };
  show_bindery_access: { params: BinderyParams; body: Nothing; result: BinderyAccessJson };
  list_properties: { params: ObjectParams; body: Nothing; result: PropertyListJson };
  create_property: { params: ObjectParams; body: PropertyCreateBody; result: PropertyJson };
  show_property: { params: PropertyParams; body: Nothing; result: PropertyJson };
  set_property: { params: PropertyParams; body: PropertySetBody; result: PropertyJson };
  delete_property: { params: PropertyParams; body: Nothing; result: Done };
  add_member: { params: PropertyParams; body: MemberBody; result: Done };
  remove_member: { params: PropertyParams; body: MemberBody; result: Done };
  contains_member: { params: PropertyParams; body: MemberBody; result: MembershipJson };
  open_station: { params: Nothing; body: StationBody; result: StationJson };
  renew_station: { params: StationParams; body: Nothing; result: StationJson };
  login_station: { params: StationParams; body: LoginBody; result: StationJson };
  logout_station: { params: StationParams; body: Nothing; result: StationJson };
  restore_rights: { params: StationParams; body: Nothing; result: Done };
  end_station: { params: StationParams; body: Nothing; result: Done };
  list_job_queues: { params: JobQueuesParams; body: Nothing; result: JobQueueListJson };
  create_job_queue: { params: BinderyParams; body: JobQueueCreateBody; result: JobQueueJson };
  show_job_queue: { params: JobQueueParams; body: Nothing; result: JobQueueJson };
  set_job_queue: { params: JobQueueParams; body: JobQueueSetBody; result: JobQueueJson };
  delete_job_queue: { params: JobQueueParams; body: Nothing; result: Done };
  show_job_queue_status: { params: JobQueueParams; body: Nothing; result: JobQueueStatusJson };
  attach_server: { params: JobQueueParams; body: Nothing; result: Done };
  detach_server: { params: JobQueueParams; body: Nothing; result: Done };
  show_server_status: { params: ServerParams; body: Nothing; result: ServerStatusJson };
  set_server_status: { params: JobQueueParams; body: ServerStatusBody; result: Done };
  list_job_history: { params: JobsHistoryParams; body: Nothing; result: JobHistoryJson };
  list_jobs: { params: JobsParams; body: Nothing; result: JobListJson };
  list_job_numbers: { params: JobsParams; body: Nothing; result: JobNumbersJson };
  submit_job: { params: JobQueueParams; body: JobBody; result: JobJson };
  show_job: { params: JobParams; body: Nothing; result: JobJson };
  change_job: { params: JobParams; body: JobChangeBody; result: JobJson };
  remove_job: { params: JobParams; body: Nothing; result: Done };
  show_job_size: { params: JobParams; body: Nothing; result: JobSizeJson };
  write_job_file: { params: FileParams; body: Nothing; result: Done };
  read_job_file: { params: FileParams; body: Nothing; result: Nothing };
  close_job_file: { params: JobParams; body: Nothing; result: Done };
  start_job: { params: JobParams; body: Nothing; result: JobJson };
  place_job: { params: JobParams; body: JobPositionBody; result: JobJson };
  move_job: { params: JobParams; body: MoveBody; result: MovedJson };
  service_job: { params: JobQueueParams; body: ServiceBody; result: JobJson };
  report_job_progress: { params: JobParams; body: ProgressBody; result: Done };
  finish_job: { params: JobParams; body: FinishBody; result: Done };
  abort_job: { params: JobParams; body: AbortBody; result: Done };
  take_client_rights: { params: JobParams; body: Nothing; result: Done };
  make_client_token: { params: JobParams; body: TokenBody; result: StationTokenJson };
}
